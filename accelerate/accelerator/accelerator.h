// The Accelerator: one training loop from one process to many. Names and meaning are those of
// Hugging Face Accelerate; docs/concepts.md walks through a step.
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

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "accelerate/accelerator/accumulation.h"
#include "accelerate/accelerator/checkpointable.h"
#include "accelerate/accelerator/gather_for_metrics.h"
#include "accelerate/accelerator/join_scope.h"
#include "accelerate/accelerator/kinds.h"
#include "accelerate/accelerator/prepared.h"
#include "accelerate/accelerator/process_scopes.h"
#include "accelerate/accelerator/split.h"
#include "accelerate/comm/operations.h"
#include "accelerate/comm/tensor_checks.h"
#include "accelerate/config/fsdp_plugin.h"
#include "accelerate/data/data_loader.h"
#include "accelerate/optim/accelerated_optimizer.h"
#include "accelerate/optim/accelerated_scheduler.h"
#include "accelerate/parallel/replicated/distributed_data_parallel.h"
#include "accelerate/precision/autocast.h"
#include "accelerate/precision/grad_scaler.h"
#include "accelerate/state/partial_state.h"
#include "accelerate/state/project_configuration.h"
#include "accelerate/tracking/memory.h"
#include "accelerate/tracking/profiler.h"
#include "accelerate/tracking/trackers.h"

namespace accelerate {

struct InitProcessGroupKwargs {
  std::optional<std::chrono::milliseconds> timeout =
      {};  ///< Of every collective; default 30 minutes.
  /// "gloo" or "nccl"; default: nccl on GPUs, gloo on the CPU.
  std::string backend = {};
};

struct AcceleratorOptions {
  bool device_placement =
      true;  ///< prepare() moves models, optimizer state and batches to device().
  /// Micro-batches a step; ACCELERATE_GRADIENT_ACCUMULATION_STEPS wins over it.
  int gradient_accumulation_steps = 1;
  /// Type that prepared forwards compute in; default ACCELERATE_MIXED_PRECISION, else `no`. A CPU
  /// that is slow in 16 bits computes in fp32 instead, unless ACCELERATE_CPU_HALF is `native`.
  std::optional<MixedPrecision> mixed_precision = std::nullopt;
  bool cpu = false;  ///< Stay on the CPU even where there is a GPU.
  /// Trackers by name (tensorboard, jsonl, csv, mlflow, "all") and of your own; init_trackers()
  /// starts them.
  std::vector<LogWith> log_with = {};
  std::filesystem::path project_dir = {};  ///< Where trackers write, unless project_config says.
  ProjectConfiguration project_config = {};
  /// Instead of gradient_accumulation_steps, for its other settings.
  std::optional<GradientAccumulationPlugin> gradient_accumulation_plugin = std::nullopt;
  /// Schedules go on only when their optimizer stepped; else in every scheduler.step().
  bool step_scheduler_with_optimizer = true;
  /// Whether a step counts once for each rank (upstream's way, the default) or once.
  std::optional<SchedulerStep> scheduler_step = std::nullopt;
  AutocastKwargs autocast = {};
  GradScalerKwargs grad_scaler = {};
  DataLoaderConfiguration dataloader_config = {};
  /// Generators that rank 0 hands to the others whenever a prepared loader begins a pass.
  std::vector<RngType> rng_types = {RngType::generator};
  DistributedDataParallelKwargs ddp = {};
  /// Shards models over the ranks instead of giving every rank a copy; by default as the launcher
  /// asks (ACCELERATE_USE_FSDP). docs/fsdp.md.
  std::optional<FullyShardedDataParallelPlugin> fsdp_plugin = std::nullopt;
  InitProcessGroupKwargs init_process_group = {};
  ProfileKwargs profile = {};
  /// A group to use instead of the one that the environment describes.
  std::shared_ptr<Communicator> communicator = nullptr;
};

struct BackwardOptions {
  bool retain_graph = false;  ///< Another backward through the same graph follows.
  bool create_graph = false;  ///< Make the gradients differentiable.
  /// Items (tokens) that `loss` sums over. Gradients of the window become those of the sum of all
  /// its losses divided by the items of all ranks, however unequal the micro-batches are. One such
  /// backward for each micro-batch.
  std::optional<std::int64_t> num_items = std::nullopt;
};

template <typename Batch>
struct PrepareLoaderOptions {
  /// Whether batches are moved to device(); by default as the Accelerator says.
  std::optional<bool> device_placement = std::nullopt;
  /// A rank's part of what rank 0 has read, for loaders that dispatch.
  std::function<Batch(const Batch&, const DispatchSlice&)> slice_fn_for_dispatch = nullptr;
  /// Makes ragged batches fit together, for loaders that dispatch, e.g. PadToLongest{}.
  std::function<void(std::vector<Batch>&)> pad_fn = nullptr;
};

class Accelerator {
 public:
  /// Joins the group of ranks. [collective] Throws ConfigError and CommError as PartialState does.
  explicit Accelerator(const AcceleratorOptions& options = {});
  ~Accelerator();
  Accelerator(Accelerator&&) noexcept;
  Accelerator& operator=(Accelerator&&) noexcept;

  // --- who am I ---------------------------------------------------------------------------------
  [[nodiscard]] const PartialState& state() const;
  /// FSDP or DEEPSPEED when models are sharded in the words of either, else as the state says.
  [[nodiscard]] DistributedType distributed_type() const;
  [[nodiscard]] int num_processes() const { return state().num_processes(); }
  [[nodiscard]] int process_index() const { return state().process_index(); }
  [[nodiscard]] int local_process_index() const { return state().local_process_index(); }
  [[nodiscard]] bool is_main_process() const { return state().is_main_process(); }
  [[nodiscard]] bool is_local_main_process() const { return state().is_local_main_process(); }
  [[nodiscard]] bool is_last_process() const { return state().is_last_process(); }
  [[nodiscard]] bool use_distributed() const { return state().use_distributed(); }
  [[nodiscard]] c10::Device device() const { return state().device(); }
  [[nodiscard]] Communicator& communicator() const { return *state().communicator(); }
  [[nodiscard]] const std::shared_ptr<GradientState>& gradient_state() const;
  /// Whether ACCELERATE_DEBUG_MODE is on (`accelerate launch --debug`): collectives of this class
  /// then refuse tensors that are not on device(), and a model on one rank refuses what several
  /// ranks would. What the ranks bring is compared always.
  [[nodiscard]] bool debug() const;

  // --- prepare ----------------------------------------------------------------------------------
  /// The objects ready for this rank, in the order given: a tuple, or the bare object for one.
  /// Modules (holder, shared_ptr, or on the stack) → Prepared, torch::jit::Module → PreparedScript,
  /// optimizers → AcceleratedOptimizer, loaders of make_data_loader → PreparedLoader, schedules
  /// (shared_ptr or on the stack, LibTorch's own too) → AcceleratedScheduler; whatever else comes
  /// back as it is. Idempotent. What is not in a shared_ptr must outlive what comes back.
  /// [collective] Throws ConfigError on all ranks when they differ in precision, accumulation,
  /// engine or loader settings, or in what they prepare; what can be seen only later is compared
  /// before the first step. Cost of both: an all-gather of 16 bytes.
  template <typename... Objects>
  [[nodiscard]] decltype(auto) prepare(Objects&&... objects) {
    compare_before_preparing({detail::given_object(objects)...});
    if constexpr (sizeof...(Objects) == 1) {
      return (adopt(std::forward<Objects>(objects)), ...);
    } else {
      return std::tuple<decltype(adopt(std::forward<Objects>(objects)))...>{
          adopt(std::forward<Objects>(objects))...};
    }
  }

  /// As prepare(loader), with the functions that a loader needs which dispatches ragged batches.
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

  /// `loader` without the first `num_batches` of an epoch: see accelerate::skip_first_batches.
  template <typename Loader>
  [[nodiscard]] static Loader skip_first_batches(const Loader& loader, std::size_t num_batches) {
    return accelerate::skip_first_batches(loader, num_batches);
  }

  /// What loaders are prepared with; set_even_batches() is for those that still will be.
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

  /// The module, holder or shared_ptr that was given to prepare(); other objects as they are.
  template <typename Model>
  [[nodiscard]] static auto& unwrap_model(Model& model) {
    if constexpr (requires { model.unwrap(); }) {
      return model.unwrap();
    } else {
      return model;
    }
  }

  // --- train ------------------------------------------------------------------------------------
  /// Computes gradients of `loss` (shape {}), divided by gradient_accumulation_steps, and averages
  /// them over the ranks. Outside of any accumulate() or no_sync() it always does. [collective]
  /// Throws UsageError: `loss` is no number that depends on parameters, a module was called behind
  /// its prepared model, parameters got no gradient, gradients had been unscaled already.
  void backward(const at::Tensor& loss, const BackwardOptions& options = {});

  /// One micro-batch: while it is alive, backward through `models` communicates only when
  /// sync_gradients(), that is for every gradient_accumulation_steps-th micro-batch and for the
  /// last batch of a loader; meanwhile optimizers and schedulers do nothing. Local. Throws
  /// UsageError while the scope of another one lasts, and where parameters were changed since a
  /// micro-batch of the window that did not synchronise (a step of an unprepared optimizer).
  template <typename... Models>
  [[nodiscard]] AccumulationWindow accumulate(const Models&... models) {
    return {gradient_state(), {models.core()...}};
  }
  [[nodiscard]] int gradient_accumulation_steps() const {
    return gradient_state()->accumulation.num_steps;
  }
  /// Throws ConfigError below 1.
  void set_gradient_accumulation_steps(int steps);
  [[nodiscard]] bool sync_gradients() const { return gradient_state()->sync_gradients; }
  void set_sync_gradients(bool on) { gradient_state()->sync_gradients = on; }
  /// Micro-batches of the present window.
  [[nodiscard]] std::int64_t step() const { return gradient_state()->step(); }

  /// While the scope is alive, backward through `model` does not communicate.
  template <typename Model>
  [[nodiscard]] SyncScope no_sync(const Model& model) const {
    return {{model.core()}, false};
  }

  /// The next backward through `model` communicates although its forwards ran under no_sync.
  template <typename Model>
  static void trigger_sync_in_backward(const Model& model) {
    model.core()->parallel().trigger_sync_in_backward();
  }

  /// While the scope is alive, a rank may run out of batches before the others: from the scope's
  /// end on it takes part in their backwards with zeros (gradients are divided by all ranks), until
  /// all are through. Then everyone has the models and optimizer state of one of the last. On every
  /// device; name all models that are trained in it, and communicate in it by backward() only.
  /// [collective at its end] Throws UsageError: no model, one that holds a SyncBatchNorm, a scope
  /// inside a scope. Cost: a few integers more for each backward, and the models once at the end.
  template <typename... Models>
  [[nodiscard]] JoinScope join_uneven_inputs(const JoinOptions& join, const Models&... models) {
    return join_cores(join, {models.core()...});
  }

  /// While the scope is alive, operations compute in the type that prepared forwards compute in; a
  /// prepared model's forward needs none. With {.enabled = false} they compute as they are.
  [[nodiscard]] AutocastScope autocast(const AutocastKwargs& kwargs) const;
  [[nodiscard]] AutocastScope autocast() const;
  [[nodiscard]] MixedPrecision mixed_precision() const;
  /// Whether forwards run under autocast.
  [[nodiscard]] bool native_amp() const { return mixed_precision() != MixedPrecision::no; }
  /// The loss scaler; null unless mixed_precision is fp16.
  [[nodiscard]] const std::shared_ptr<GradScaler>& scaler() const;
  /// Whether the last step of any prepared optimizer was left out because gradients overflowed.
  [[nodiscard]] bool optimizer_step_was_skipped() const;

  /// Divides gradients by the factor that fp16 training gave the loss, of one optimizer or of all.
  /// To be called when gradients are complete (sync_gradients()), before looking at them; clipping
  /// and steps do it by themselves. [collective] Throws UsageError on incomplete gradients.
  void unscale_gradients();
  void unscale_gradients(const AcceleratedOptimizer& optimizer);

  /// Scales the gradients of `parameters`, unscaled before if need be, so that their norm together
  /// is at most `max_norm`; returns the norm before that, shape {}. `norm_type` is any p, also
  /// infinity. Ranks have equal gradients and need not talk. [collective for fp16, and where one of
  /// the parameters is sharded] Throws UsageError: fp16 gradients that still accumulate, negative
  /// `max_norm`, NaN as p.
  at::Tensor clip_grad_norm_(const std::vector<at::Tensor>& parameters, double max_norm,
                             double norm_type = 2.0);
  /// Clamps every element of the gradients to [-clip_value, clip_value], as above.
  void clip_grad_value_(const std::vector<at::Tensor>& parameters, double clip_value);

  /// Forgets models, optimizers and what is accumulated, and frees cached memory; the objects
  /// themselves are the caller's to drop.
  void free_memory();
  void clear() { free_memory(); }
  /// The same after emptying the objects: holders become null, tensors undefined.
  template <typename First, typename... Objects>
  void free_memory(First& first, Objects&... objects) {
    release_memory(first, objects...);
    free_memory();
  }

  // --- between ranks ----------------------------------------------------------------------------
  /// The ranks' values one after the other along dim 0. [collective]
  template <Nested T>
  [[nodiscard]] T gather(T value) const {
    return accelerate::gather(communicator(), verified("gather", std::move(value)));
  }
  /// As gather, of what ranks computed for the present batch of the active loader: every sample
  /// comes once, in the order of the loader, also where the ranks' batches differ in size, and less
  /// those that were repeated to make them equal. Vectors of what is no tensor (strings) that stand
  /// beside tensors are gathered too. [collective over the ranks that have a batch]
  template <Nested T>
  [[nodiscard]] T gather_for_metrics(T value) const {
    return detail::gather_once(communicator(), metrics_step(),
                               verified("gather_for_metrics", std::move(value)));
  }
  /// The same with one object a sample, of any type that can be sent (accelerate/tensor/parcel.h;
  /// with accelerate/comm/objects.h what is convertible to JSON too), tensors of any shape
  /// included.
  template <typename T>
  [[nodiscard]] std::vector<T> gather_object_for_metrics(std::vector<T> objects) const {
    static_assert(detail::Portable<T>,
                  "gather_object_for_metrics: objects of this type cannot be sent; give it to_json "
                  "and from_json and include accelerate/comm/objects.h");
    return detail::gather_objects_once(communicator(), metrics_step(), std::move(objects));
  }
  template <typename T>
    requires(!Nested<T>)
  [[nodiscard]] std::vector<T> gather_for_metrics(std::vector<T> objects) const {
    return gather_object_for_metrics(std::move(objects));
  }
  /// The ranks' values reduced by `op`, element by element, times `scale`, on all of them.
  /// [collective]
  template <Nested T>
  [[nodiscard]] T reduce(T value, ReduceOp op = ReduceOp::sum, double scale = 1.0) const {
    return accelerate::reduce(communicator(), verified("reduce", std::move(value)), op, scale);
  }
  /// The value of one rank, on all of them; the others bring one of the same shapes. [collective]
  template <Nested T>
  [[nodiscard]] T broadcast(T value, int from_process = 0) const {
    return accelerate::broadcast(communicator(), verified("broadcast", std::move(value)),
                                 from_process);
  }
  /// Every tensor padded along options.dim to the greatest size that a rank has, so that it can be
  /// gathered. [collective]
  template <Nested T>
  [[nodiscard]] T pad_across_processes(T value, const PadOptions& options = {}) const {
    return accelerate::pad_across_processes(
        communicator(), verified("pad_across_processes", std::move(value)), options);
  }
  /// This rank's part of a vector, a tensor or a map of equally long ones. Local.
  template <typename T>
  [[nodiscard]] T split_between_processes(const T& value, const SplitOptions& options = {}) const {
    return split_between_ranks(value, process_index(), num_processes(), options);
  }

  /// Returns when all ranks have arrived. [collective]
  void wait_for_everyone() const { state().wait_for_everyone(); }
  /// The main process runs the scope first, the others after it. [collective]
  [[nodiscard]] ProcessFirst main_process_first() const;
  /// The same with the main process of each machine.
  [[nodiscard]] ProcessFirst local_main_process_first() const;

  /// `fn` on the chosen rank, nothing (nullopt) on the others.
  template <typename Fn>
  [[nodiscard]] auto on_main_process(Fn fn) const {
    return detail::only_if(is_main_process(), std::move(fn));
  }
  template <typename Fn>
  [[nodiscard]] auto on_local_main_process(Fn fn) const {
    return detail::only_if(is_local_main_process(), std::move(fn));
  }
  template <typename Fn>
  [[nodiscard]] auto on_last_process(Fn fn) const {
    return detail::only_if(is_last_process(), std::move(fn));
  }
  template <typename Fn>
  [[nodiscard]] auto on_process(Fn fn, int process_index) const {
    return detail::only_if(!use_distributed() || this->process_index() == process_index,
                           std::move(fn));
  }
  template <typename Fn>
  [[nodiscard]] auto on_local_process(Fn fn, int local_process_index) const {
    return detail::only_if(!use_distributed() || this->local_process_index() == local_process_index,
                           std::move(fn));
  }

  // --- watch ------------------------------------------------------------------------------------
  /// Records what operators take until the scope ends; see tracking/profiler.h. Default: as
  /// AcceleratorOptions::profile says. [collective at its end, with output_trace_dir]
  [[nodiscard]] Profiler profile() const;
  [[nodiscard]] Profiler profile(ProfileKwargs kwargs) const;

  /// Raises a flag on this rank; check_trigger() is true on all ranks when any had raised it, and
  /// lowers it again. [check_trigger is collective]
  void set_trigger();
  [[nodiscard]] bool check_trigger();

  /// Writes a line to standard output, once per machine.
  void print(const std::string& line) const;

  // --- save -------------------------------------------------------------------------------------
  /// Writes named tensors as a safetensors file, on the main process only (with save_on_each_node,
  /// of each machine); atomic. Local.
  void save(const std::vector<NamedTensor>& tensors, const std::filesystem::path& file) const;
  /// Writes `model`'s parameters and buffers to `directory`, on the main process only as save()
  /// does; tied parameters once, under their first name; of TorchScript not the position_ids and
  /// token_type_ids that Transformers makes itself. One model.safetensors, or, beyond
  /// `max_shard_size` ("500MB", "1.5GB", decimal), shards with an index, as Transformers reads
  /// them. Local; of a sharded model [collective], in master dtype: rank 0 fetches and writes one
  /// whole tensor after the other. Throws CheckpointError, ConfigError for a size that is none; see
  /// save_weights.
  template <typename Model>
  void save_model(const Model& model, const std::filesystem::path& directory,
                  const std::string& max_shard_size = "10GB") const {
    save_module(*model.core(), directory, max_shard_size);
  }
  /// What save_model writes, by name: handles to the model's own. Of a sharded model, copies of
  /// the whole tensors, in master dtype and on the CPU, on rank 0, and nothing on the others:
  /// [collective].
  template <typename Model>
  [[nodiscard]] std::vector<NamedTensor> get_state_dict(const Model& model) const {
    return state_dict_of(*model.core());
  }

  // --- checkpoints ------------------------------------------------------------------------------
  /// Saves all there is to go on from: prepared models, optimizers, schedules and loaders, the loss
  /// scale, the random generators of every rank, registered objects, and inside an accumulation
  /// window its gradients. `output_dir` becomes complete or stays as it was, whatever happens; one
  /// that holds an earlier checkpoint is replaced. With automatic_checkpoint_naming leave it out:
  /// the folder is <project_dir>/checkpoints/checkpoint_<save_iteration>, which must not be there,
  /// and then the oldest beyond total_limit go. Returns the folder. [collective] Throws UsageError,
  /// and CheckpointError on all ranks when it failed on one. docs/checkpoints.md.
  std::filesystem::path save_state(const std::filesystem::path& output_dir = {},
                                   const SaveStateOptions& options = {});
  /// Returns once an asynchronous save is complete; at once when there is none. Throws what it
  /// failed of, a CheckpointError on all ranks, unless another call has thrown it already. Local.
  void wait_for_save();

  /// Goes on where save_state() was called, here or in Python Accelerate: prepare and register the
  /// same objects in the same order first. Ranks may be more or fewer. With automatic naming,
  /// `input_dir` may be left out: the newest one is loaded. Returns the folder. [collective] Throws
  /// CheckpointError on all ranks: damaged, incomplete, of another training, of a newer version.
  /// Then nothing has changed on any rank, unless a registered object refused its state (those
  /// before it are loaded, and it itself elsewhere) or a disk failed at the end.
  /// docs/checkpoints.md.
  std::filesystem::path load_state(const std::filesystem::path& input_dir = {},
                                   const LoadStateOptions& options = {});

  /// Objects with state_dict() and load_state_dict() to be saved and loaded too, in this order; a
  /// shared_ptr is shared, anything else must outlive the Accelerator. Local, alike on all ranks.
  template <typename... Objects>
  void register_for_checkpointing(Objects&&... objects) {
    static_assert((detail::kIsCheckpointable<std::remove_cvref_t<Objects>> && ...),
                  "register_for_checkpointing needs objects (or shared_ptrs to objects) with "
                  "`StateDict state_dict() const` and `void load_state_dict(const StateDict&)`");
    (register_object(detail::checkpointable(std::forward<Objects>(objects))), ...);
  }

  /// Calls `hook` on every rank in each save_state(), with the folder in which files may be written
  /// that are to be part of the checkpoint (no folders, names no other rank uses), before anything
  /// else is.
  RemovableHandle register_save_state_pre_hook(StateHook hook);
  /// Calls `hook` on every rank in each load_state(), with the checkpoint, before anything is read.
  RemovableHandle register_load_state_pre_hook(StateHook hook);

  /// The number of the next automatically named checkpoint.
  [[nodiscard]] std::int64_t save_iteration() const;
  void set_save_iteration(std::int64_t iteration);

  // --- track ------------------------------------------------------------------------------------
  // Local, and cheap: values are handed to threads that write and send. What is called on a rank
  // that does not track (most trackers run on the main process only) does nothing there. All throw
  // UsageError for names that are empty, come twice or are not UTF-8, and before init_trackers().

  /// Starts the trackers of log_with on a run of `project_name`; `config` are the settings to
  /// compare runs by, `init_kwargs` options by tracker. Throws ConfigError.
  void init_trackers(const std::string& project_name, const TrackerConfig& config = {},
                     const TrackerKwargs& init_kwargs = {}) {
    trackers_of_rank().init(project_name, config, init_kwargs);
  }
  /// The values of a step: accelerator.log({{"loss", loss}, {"epoch", epoch}}, step).
  void log(const TrackerValues& values, std::optional<std::int64_t> step = std::nullopt) {
    trackers_of_rank().log(values, step);
  }
  /// Pictures of a step, shapes [N, C, H, W], [C, H, W] or [H, W]. Encoded here, before it returns.
  void log_images(const TrackerImages& images, std::optional<std::int64_t> step = std::nullopt) {
    trackers_of_rank().log_images(images, step);
  }
  /// A table of a step: columns, and rows as long as they are.
  void log_table(const std::string& name, const TrackerTable& table,
                 std::optional<std::int64_t> step = std::nullopt) {
    trackers_of_rank().log_table(name, table, step);
  }
  /// The tracker of that name; one that does nothing on a rank which does not have it. Throws
  /// UsageError for a name that log_with does not have.
  [[nodiscard]] std::shared_ptr<GeneralTracker> get_tracker(const std::string& name) const {
    return trackers_of_rank().get(name);
  }
  /// The trackers that were started on this rank.
  [[nodiscard]] const std::vector<std::shared_ptr<GeneralTracker>>& trackers() const {
    return trackers_of_rank().active();
  }

  /// The last call of a training: waits for all ranks and for a save that is under way, then
  /// finishes the trackers, so that no rank waits for another's. [collective] Throws
  /// CheckpointError, at the very end, if that save failed.
  void end_training();

 private:
  template <typename Object>
  decltype(auto) adopt(Object&& object) {
    using T = std::remove_cvref_t<Object>;
    static_assert(
        !detail::kIsTorchDataLoader<T>,
        "prepare() was given a torch::data loader, which hides its dataset and sampler and so "
        "cannot be shared between ranks: make it with accelerate::make_data_loader(dataset, "
        "{.batch_size = …, .shuffle = …}) instead");
    static_assert(
        !detail::kIsBarePointer<T> && !detail::kIsAnyModule<T>,
        "prepare() was given a pointer or an AnyModule, which it would hand back unprepared: "
        "pass the module, optimizer or schedule itself (*pointer), a module holder, or a "
        "shared_ptr to a module or a schedule");
    static_assert(
        std::is_lvalue_reference_v<Object> || !(detail::kIsModule<T> || detail::kIsScript<T> ||
                                                detail::kIsOptimizer<T> || detail::kIsScheduler<T>),
        "prepare() was given a temporary module or optimizer, or a schedule not in a shared_ptr, "
        "which ends with this line, while what prepare() returns goes on using it: give it a name "
        "first");
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
  /// `value`; in debug mode only after a look at its devices.
  template <Nested T>
  [[nodiscard]] T verified(const char* operation, T value) const {
    if (debug()) require_device(collect_tensors(value), device(), operation);
    return value;
  }
  [[nodiscard]] detail::MetricsStep metrics_step() const {
    return detail::metrics_step(*gradient_state(), communicator());
  }
  void save_module(const detail::ModelCore& core, const std::filesystem::path& directory,
                   const std::string& max_shard_size) const;
  [[nodiscard]] std::vector<NamedTensor> state_dict_of(const detail::ModelCore& core) const;

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accelerate
