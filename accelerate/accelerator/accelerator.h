// The Accelerator: one training loop, from one process to many. Names and their meaning follow
// Hugging Face Accelerate. docs/concepts.md walks through a step.
//
//   Accelerator accelerator;
//   auto [model, optimizer, loader] = accelerator.prepare(net, adamw, batches);
//   for (auto& batch : loader) {
//     auto loss = torch::nll_loss(model(batch.data), batch.target);
//     accelerator.backward(loss);
//     optimizer.step();
//     optimizer.zero_grad();
//   }
//   accelerator.save_model(model, "out");
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "accelerate/accelerator/accumulation.h"
#include "accelerate/accelerator/join_scope.h"
#include "accelerate/accelerator/kinds.h"
#include "accelerate/accelerator/options.h"
#include "accelerate/accelerator/prepared.h"
#include "accelerate/accelerator/rank_calls.h"
#include "accelerate/checkpoint/checkpointable.h"
#include "accelerate/data/data_loader.h"
#include "accelerate/optim/accelerated_optimizer.h"
#include "accelerate/optim/accelerated_scheduler.h"
#include "accelerate/optim/precision/autocast.h"
#include "accelerate/optim/precision/grad_scaler.h"
#include "accelerate/watch/profiler/memory_meter.h"
#include "accelerate/watch/profiler/profiler.h"
#include "accelerate/watch/trackers/trackers.h"

namespace accelerate {

class Accelerator : public RankCalls {
 public:
  /// Joins the group of ranks. [collective] Throws ConfigError and CommError as PartialState does.
  explicit Accelerator(const AcceleratorOptions& options = {});
  ~Accelerator();
  Accelerator(Accelerator&&) noexcept;
  Accelerator& operator=(Accelerator&&) noexcept;

  /// FSDP or DEEPSPEED if models are sharded, after whose options ask for it; else that of state().
  [[nodiscard]] DistributedType distributed_type() const;
  /// deepspeed_plugin() is the active one; null if the program gave none. What is prepared later is
  /// prepared by the one that was selected last; the steps of accumulation change for all. All
  /// ranks must select the same. The others throw UsageError, which lists the names.
  [[nodiscard]] const DeepSpeedPlugin* deepspeed_plugin() const;
  [[nodiscard]] const DeepSpeedPlugin& get_deepspeed_plugin(const std::string& name) const;
  void select_deepspeed_plugin(const std::string& name);

  // --- prepare ----------------------------------------------------------------------------------
  /// Returns the objects ready for this rank, in the order given: a tuple, or the bare object for
  /// one. What each becomes:
  ///   modules (holder, shared_ptr or on the stack)                  Prepared
  ///   torch::jit::Module                                            PreparedScript
  ///   optimizers                                                    AcceleratedOptimizer
  ///   loaders of make_data_loader                                   PreparedLoader
  ///   schedules, LibTorch's own too (shared_ptr or on the stack)    AcceleratedScheduler
  /// Other objects come back as they are. Idempotent. An object that is not in a shared_ptr must
  /// outlive the prepared one. [collective] Throws ConfigError on all ranks if they differ in
  /// precision, accumulation, engine or loader settings, or in what they prepare. Differences that
  /// show only later are found before the first step. Cost of each comparison: an all-gather of 16
  /// bytes. If it refuses an object, the objects before it are prepared only where the refusal could
  /// not be foreseen.
  template <typename... Objects>
  [[nodiscard]] decltype(auto) prepare(Objects&&... objects) {
    check_before_preparing({detail::given_object(objects)...});
    if constexpr (sizeof...(Objects) == 1) {
      return (adopt(std::forward<Objects>(objects)), ...);
    } else {
      return std::tuple<decltype(adopt(std::forward<Objects>(objects)))...>{
          adopt(std::forward<Objects>(objects))...};
    }
  }

  /// As prepare(loader), with the functions that a loader needs to dispatch ragged batches.
  template <typename Batch>
  [[nodiscard]] PreparedLoader<Batch> prepare_data_loader(
      const DataLoader<Batch>& loader, const PrepareLoaderOptions<Batch>& options = {}) {
    LoaderContext context = loader_context();
    if (options.device_placement) place(context, *options.device_placement);
    auto prepared = accelerate::prepare_data_loader(
        loader, context, {options.pad_fn, options.slice_fn_for_dispatch});
    remember_loader(prepared.core().plan);
    return prepared;
  }

  /// Returns `loader` without the first `num_batches` of an epoch; see
  /// accelerate::skip_first_batches.
  template <typename Loader>
  [[nodiscard]] static Loader skip_first_batches(const Loader& loader, std::size_t num_batches) {
    return accelerate::skip_first_batches(loader, num_batches);
  }

  /// The settings that loaders are prepared with. set_even_batches() affects loaders prepared
  /// later.
  [[nodiscard]] const DataLoaderConfiguration& dataloader_config() const;
  [[nodiscard]] bool split_batches() const { return dataloader_config().split_batches; }
  [[nodiscard]] std::optional<bool> dispatch_batches() const {
    return dataloader_config().dispatch_batches;
  }
  [[nodiscard]] bool even_batches() const { return dataloader_config().even_batches; }
  void set_even_batches(bool even_batches);
  [[nodiscard]] bool use_seedable_sampler() const {
    return dataloader_config().use_seedable_sampler;
  }
  [[nodiscard]] bool non_blocking() const { return dataloader_config().non_blocking; }
  [[nodiscard]] bool use_stateful_dataloader() const {
    return dataloader_config().use_stateful_dataloader;
  }

  /// Returns the module, holder or shared_ptr that was given to prepare(). Other objects are
  /// returned as they are.
  template <typename Model>
  [[nodiscard]] static auto& unwrap_model(Model& model) {
    if constexpr (requires { model.unwrap(); }) {
      return model.unwrap();
    } else {
      return model;
    }
  }

  // --- train ------------------------------------------------------------------------------------
  /// Computes the gradients of `loss` (shape {}), divided by gradient_accumulation_steps, and
  /// averages them over the ranks. Inside accumulate() or no_sync() it may skip the averaging.
  /// [collective] Throws UsageError if `loss` is not one number that depends on parameters, or a
  /// module was called directly instead of its prepared model. Also throws it if parameters got no
  /// gradient, or gradients had already been unscaled.
  void backward(const at::Tensor& loss, const BackwardOptions& options = {});

  /// Opens a scope for one micro-batch. Inside it, backward through `models` communicates only if
  /// sync_gradients() is true: on every gradient_accumulation_steps-th micro-batch, and on the last
  /// batch of a loader. On the other micro-batches optimizers and schedulers do nothing. Local.
  /// Throws UsageError inside another accumulate() scope. Also throws it if parameters changed
  /// within the window (a step of an unprepared optimizer) after a micro-batch that did not
  /// synchronise.
  template <typename... Models>
  [[nodiscard]] AccumulationWindow accumulate(const Models&... models) {
    return {gradient_state(), {detail::core_of(models)...}};
  }
  [[nodiscard]] int gradient_accumulation_steps() const {
    return gradient_state()->accumulation.num_steps;
  }
  /// Throws ConfigError below 1.
  void set_gradient_accumulation_steps(int steps);
  [[nodiscard]] bool sync_gradients() const { return gradient_state()->sync_gradients; }
  void set_sync_gradients(bool on) { gradient_state()->sync_gradients = on; }
  /// The number of micro-batches so far in the present window.
  [[nodiscard]] std::int64_t step() const { return gradient_state()->step(); }

  /// While the scope is alive, backward through `model` does not communicate.
  template <typename Model>
  [[nodiscard]] SyncScope no_sync(const Model& model) const {
    return {{detail::core_of(model)}, false};
  }
  /// Makes the next backward through `model` communicate although its forwards ran under no_sync.
  template <typename Model>
  static void trigger_sync_in_backward(const Model& model) {
    detail::core_of(model)->parallel().engine->trigger_sync_in_backward();
  }

  /// While the scope is alive, a rank may run out of batches before its peers. At the scope's end
  /// it takes part in their backwards with zeros until all ranks are through; gradients are divided
  /// by the number of all ranks. Then every rank gets the models and optimizer state of a rank that
  /// was among the last. Works on every device. Name all models that are trained in the scope, and
  /// communicate in it by backward() only. [collective at its end] Throws UsageError without a
  /// model, for a model that holds a SyncBatchNorm, and inside another such scope. Cost: a few more
  /// integers per backward, and the models once at the end.
  template <typename... Models>
  [[nodiscard]] JoinScope join_uneven_inputs(const JoinOptions& join, const Models&... models) {
    return join_cores(join, {detail::core_of(models)...});
  }

  /// While the scope is alive, operations compute in the type that prepared forwards compute in.
  /// With {.enabled = false} they compute in the type of their inputs. A prepared model's forward
  /// does not need the scope.
  [[nodiscard]] AutocastScope autocast(const AutocastKwargs& kwargs) const;
  [[nodiscard]] AutocastScope autocast() const;
  [[nodiscard]] MixedPrecision mixed_precision() const;
  /// Whether forwards run under autocast.
  [[nodiscard]] bool native_amp() const { return mixed_precision() != MixedPrecision::no; }
  /// The loss scaler; null unless mixed_precision is fp16.
  [[nodiscard]] const std::shared_ptr<GradScaler>& scaler() const;
  /// The prepared optimizers that are still alive, in the order in which they were prepared.
  [[nodiscard]] std::vector<AcceleratedOptimizer> optimizers() const;
  /// Whether any prepared optimizer skipped its last step because gradients overflowed.
  [[nodiscard]] bool optimizer_step_was_skipped() const;

  /// Divides the gradients of one optimizer, or of all, by the scale that fp16 training gave the
  /// loss. Call it before looking at gradients, when they are complete (sync_gradients()). Clipping
  /// and steps call it automatically. [collective] Throws UsageError if gradients are not complete.
  void unscale_gradients();
  void unscale_gradients(const AcceleratedOptimizer& optimizer);

  /// Scales the gradients of `parameters` so that their total norm is at most `max_norm`. Unscales
  /// them first if necessary. Returns the norm before clipping, shape {}. `norm_type` is any p,
  /// including infinity. Ranks have equal gradients, so no communication is needed. [collective in
  /// fp16, and if one of the parameters is sharded] Throws UsageError if fp16 gradients still
  /// accumulate, `max_norm` is negative, or `norm_type` is NaN.
  at::Tensor clip_grad_norm_(const std::vector<at::Tensor>& parameters, double max_norm,
                             double norm_type = 2.0);
  /// Clamps every element of the gradients to [-clip_value, clip_value]. Unscales and throws as
  /// clip_grad_norm_ does.
  void clip_grad_value_(const std::vector<at::Tensor>& parameters, double clip_value);

  /// Forgets models, optimizers and accumulated state, and frees cached memory. The caller still
  /// owns the objects.
  void free_memory();
  void clear() { free_memory(); }
  /// As free_memory(), after emptying the given objects: holders become null, tensors undefined.
  template <typename First, typename... Objects>
  void free_memory(First& first, Objects&... objects) {
    release_memory(first, objects...);
    free_memory();
  }

  // --- watch ------------------------------------------------------------------------------------
  /// Profiles operators until the scope ends; see watch/profiler/profiler.h. Default: as
  /// AcceleratorOptions::profile says. [collective at its end, with output_trace_dir]
  [[nodiscard]] Profiler profile() const;
  [[nodiscard]] Profiler profile(ProfileKwargs kwargs) const;

  // --- save -------------------------------------------------------------------------------------
  /// Writes named tensors as a safetensors file, atomically. Without `safe_serialization`, writes a
  /// file of torch.save, of plain tensors alone. Only the main process writes; with
  /// save_on_each_node, the main process of each machine does. Local.
  void save(const std::vector<NamedTensor>& tensors, const std::filesystem::path& file,
            bool safe_serialization = true) const;
  /// Writes the parameters and buffers of `model` to `directory`, on the same process as save().
  /// Writes one model.safetensors. Beyond `max_shard_size` ("500MB", "1.5GB", decimal) it writes
  /// shards with an index, as Transformers reads them. Without `safe_serialization`, the files are
  /// pytorch_model.bin, which torch.load reads. Tied parameters are written once, under
  /// their first name. Of TorchScript models, position_ids and token_type_ids that Transformers
  /// recreates are left out. Local for whole models. For a sharded model [collective], in master
  /// dtype: rank 0 fetches and writes one whole tensor at a time. Throws CheckpointError, and
  /// ConfigError for a size that is not valid; see save_weights.
  template <typename Model>
  void save_model(const Model& model, const std::filesystem::path& directory,
                  const std::string& max_shard_size = "10GB",
                  bool safe_serialization = true) const {
    save_module(*detail::core_of(model), directory, max_shard_size, safe_serialization);
  }
  /// Returns what save_model writes, by name, as handles to the model's tensors. For a sharded
  /// model [collective]: rank 0 gets copies of the whole tensors, in master dtype and on the CPU,
  /// and the other ranks get nothing.
  template <typename Model>
  [[nodiscard]] std::vector<NamedTensor> get_state_dict(const Model& model) const {
    return state_dict_of(*detail::core_of(model));
  }

  // --- checkpoints ------------------------------------------------------------------------------
  /// Saves all that is needed to resume: prepared models, optimizers, schedules and loaders, the
  /// loss scale, the random generators of every rank, and registered objects. Inside an
  /// accumulation window, saves its gradients too. Whatever fails, `output_dir` ends up complete or
  /// as it was. An earlier checkpoint in it is replaced. With automatic_checkpoint_naming leave
  /// `output_dir` out: the folder is <project_dir>/checkpoints/checkpoint_<save_iteration>, which
  /// must not exist. Afterwards the oldest checkpoints beyond total_limit are removed. Returns the
  /// folder. [collective] Throws UsageError, and CheckpointError on all ranks if a rank failed. See
  /// docs/checkpoints.md.
  std::filesystem::path save_state(const std::filesystem::path& output_dir = {},
                                   const SaveStateOptions& options = {});
  /// Returns once an asynchronous save is complete, or immediately if none is under way. Throws the
  /// error of the save, a CheckpointError on all ranks, unless another call has already thrown it.
  /// Local.
  void wait_for_save();
  /// Resumes where save_state() was called, here or in Python Accelerate. First prepare and
  /// register the same objects in the same order. The number of ranks may differ. With automatic
  /// naming `input_dir` may be left out: the newest checkpoint is loaded. Returns the folder.
  /// [collective] Throws CheckpointError on all ranks if the checkpoint is damaged or incomplete,
  /// belongs to another training, or is of a newer version. Then nothing has changed on any rank,
  /// with two exceptions. If a registered object refused its state, the objects before it are
  /// loaded, and it is loaded on the ranks where it did not refuse. If a disk failed at the end,
  /// part may be loaded. See docs/checkpoints.md.
  std::filesystem::path load_state(const std::filesystem::path& input_dir = {},
                                   const LoadStateOptions& options = {});

  /// Returns, on all ranks alike, whether a rank got SIGTERM, SIGUSR1 or SIGINT. The first call begins
  /// to catch these signals. Call it behind a step: the batch counts as trained. [collective] Throws
  /// UsageError inside join_uneven_inputs, and if only some ranks have called save_on_signal(). Cost:
  /// an all-reduce of 16 bytes on the CPU; none once it is true.
  [[nodiscard]] bool should_stop();
  /// The exit code that says why the program ends: 128 + the signal, 0 before should_stop() was true.
  [[nodiscard]] int stop_code() const;
  /// Begins to catch the signals, and makes should_stop() save as save_state(output_dir, options)
  /// does before it returns true. Call it on all ranks. Local. Throws UsageError for a folder that
  /// save_state() would refuse, and for options.asynchronous.
  void save_on_signal(const std::filesystem::path& output_dir = {},
                      const SaveStateOptions& options = {});

  /// Registers objects with state_dict() and load_state_dict(), to be saved and loaded in this
  /// order. A shared_ptr is shared; any other object must outlive the Accelerator. Local, but must
  /// be called alike on all ranks.
  template <typename... Objects>
  void register_for_checkpointing(Objects&&... objects) {
    static_assert((detail::kIsCheckpointable<std::remove_cvref_t<Objects>> && ...),
                  "register_for_checkpointing needs objects (or shared_ptrs to objects) with "
                  "`StateDict state_dict() const` and `void load_state_dict(const StateDict&)`");
    (register_object(detail::checkpointable(std::forward<Objects>(objects))), ...);
  }

  /// Calls `hook` on every rank at the start of each save_state(), before anything is written.
  /// Files that the hook writes into the given folder become part of the checkpoint. It may write
  /// no folders, and no name that another rank uses.
  RemovableHandle register_save_state_pre_hook(StateHook hook);
  /// Calls `hook` on every rank in each load_state(), with the checkpoint's folder, before anything
  /// is read.
  RemovableHandle register_load_state_pre_hook(StateHook hook);
  /// The number of the next automatically named checkpoint.
  [[nodiscard]] std::int64_t save_iteration() const;
  void set_save_iteration(std::int64_t iteration);

  // --- track ------------------------------------------------------------------------------------
  // Local and cheap: values are handed to threads that write and send. Most trackers run on the
  // main process only; on a rank that does not track, these calls do nothing. All throw UsageError
  // for names that are empty, repeated or not UTF-8, and before init_trackers().
  /// Starts the trackers of log_with on a run of `project_name`. `config` holds the settings by
  /// which runs are compared. `init_kwargs` holds options for each tracker. Throws ConfigError.
  void init_trackers(const std::string& project_name, const ConfigMap& config = {},
                     const TrackerInitOptions& init_kwargs = {}) {
    trackers_of_rank().init(project_name, config, init_kwargs);
  }
  /// Logs the values of a step: accelerator.log({{"loss", loss}, {"epoch", epoch}}, step).
  void log(const TrackerValues& values, std::optional<std::int64_t> step = std::nullopt) {
    trackers_of_rank().log(values, step);
  }
  /// Logs pictures of a step, shapes [N, C, H, W], [C, H, W] or [H, W]. Encodes them before it
  /// returns.
  void log_images(const TrackerImages& images, std::optional<std::int64_t> step = std::nullopt) {
    trackers_of_rank().log_images(images, step);
  }
  /// Logs a table of a step: column names, and rows with one cell per column.
  void log_table(const std::string& name, const TrackerTable& table,
                 std::optional<std::int64_t> step = std::nullopt) {
    trackers_of_rank().log_table(name, table, step);
  }
  /// Returns the tracker of that name, or one that does nothing if this rank does not have it.
  /// Throws UsageError for a name that log_with does not have.
  [[nodiscard]] std::shared_ptr<GeneralTracker> get_tracker(const std::string& name) const {
    return trackers_of_rank().get(name);
  }
  /// The trackers that were started on this rank.
  [[nodiscard]] const std::vector<std::shared_ptr<GeneralTracker>>& trackers() const {
    return trackers_of_rank().active();
  }
  /// Ends a training; call it last. Waits for all ranks and for a save that is under way, then
  /// finishes the trackers, so that no rank waits for another's trackers. [collective] Throws
  /// CheckpointError, at the very end, if the save failed.
  void end_training();

 private:
  template <typename Object>
  decltype(auto) adopt(Object&& object) {
    using T = std::remove_cvref_t<Object>;
    detail::require_preparable_type<Object>();
    if constexpr (detail::kIsHolder<T> || detail::kIsSharedModule<T>) {
      return Prepared<T>(object, core_of(*object));
    } else if constexpr (detail::kIsModule<T>) {
      return Prepared<T*>(&object, core_of(object));
    } else if constexpr (detail::kIsScript<T>) {
      return PreparedScript(object, script_core_of(object));
    } else if constexpr (detail::kIsOptimizer<T>) {
      return adopt_optimizer(object);
    } else if constexpr (detail::kIsSharedScheduler<T>) {
      return adopt_scheduler(object);
    } else if constexpr (detail::kIsScheduler<T>) {
      return adopt_scheduler(detail::without_owner(object));
    } else if constexpr (detail::kIsLoader<T>) {
      return prepare_data_loader(object);
    } else if constexpr (std::is_lvalue_reference_v<Object>) {
      return (object);
    } else {
      return T(std::move(object));
    }
  }

  void check_before_preparing(const std::vector<detail::GivenObject>& objects);
  void compare_before_preparing(const std::vector<detail::GivenObject>& objects);
  [[nodiscard]] JoinScope join_cores(const JoinOptions& join,
                                     std::vector<std::shared_ptr<detail::ModelCore>> cores);
  [[nodiscard]] std::shared_ptr<detail::ModelCore> core_of(torch::nn::Module& module);
  [[nodiscard]] std::shared_ptr<detail::ModelCore> script_core_of(torch::jit::Module& module);
  [[nodiscard]] AcceleratedOptimizer adopt_optimizer(torch::optim::Optimizer& optimizer);
  [[nodiscard]] AcceleratedScheduler adopt_scheduler(const AcceleratedScheduler::Given& scheduler);
  [[nodiscard]] LoaderContext loader_context() const;
  void place(LoaderContext& context, bool on_device) const;
  [[nodiscard]] Trackers& trackers_of_rank() const;
  void remember_loader(const detail::LoaderPlan& loader);
  void register_object(detail::CheckpointedObject object);
  void save_module(const detail::ModelCore& core, const std::filesystem::path& directory,
                   const std::string& max_shard_size, bool safe_serialization) const;
  [[nodiscard]] std::vector<NamedTensor> state_dict_of(const detail::ModelCore& core) const;

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accelerate
