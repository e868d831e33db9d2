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

#include "accelerate/accelerator/kinds.h"
#include "accelerate/accelerator/prepared.h"
#include "accelerate/accelerator/process_scopes.h"
#include "accelerate/accelerator/split.h"
#include "accelerate/comm/operations.h"
#include "accelerate/data/data_loader.h"
#include "accelerate/optim/accelerated_optimizer.h"
#include "accelerate/parallel/replicated/distributed_data_parallel.h"
#include "accelerate/state/partial_state.h"

namespace accelerate {

struct InitProcessGroupKwargs {
  std::optional<std::chrono::milliseconds> timeout =
      {};  ///< Of every collective; default 30 minutes.
};

struct AcceleratorOptions {
  bool device_placement =
      true;          ///< prepare() moves models, optimizer state and batches to device().
  bool cpu = false;  ///< Stay on the CPU even where there is a GPU.
  DataLoaderConfiguration dataloader_config = {};
  DistributedDataParallelKwargs ddp = {};
  InitProcessGroupKwargs init_process_group = {};
  /// A group to use instead of the one that the environment describes.
  std::shared_ptr<Communicator> communicator = nullptr;
};

struct BackwardOptions {
  bool retain_graph = false;  ///< Another backward through the same graph follows.
  bool create_graph = false;  ///< Make the gradients differentiable.
};

/// While alive, gradients of the model accumulate on this rank only.
class [[nodiscard]] NoSync {
 public:
  explicit NoSync(std::shared_ptr<detail::ModelCore> core)
      : core_(std::move(core)), before_(core_->parallel().synchronize()) {
    core_->parallel().set_synchronize(false);
  }
  ~NoSync() { core_->parallel().set_synchronize(before_); }
  NoSync(const NoSync&) = delete;
  NoSync& operator=(const NoSync&) = delete;

 private:
  std::shared_ptr<detail::ModelCore> core_;
  bool before_;
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
  [[nodiscard]] DistributedType distributed_type() const { return state().distributed_type(); }
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
  [[nodiscard]] bool sync_gradients() const { return gradient_state()->sync_gradients; }

  // --- prepare ----------------------------------------------------------------------------------
  /// The objects ready for this rank, in the order given: a tuple, or the bare object for one.
  /// Modules (holder, shared_ptr, or on the stack) → Prepared, torch::jit::Module → PreparedScript,
  /// optimizers → AcceleratedOptimizer, loaders of make_data_loader → PreparedLoader; whatever else
  /// comes back as it is. Idempotent. Modules and optimizers must outlive what comes back.
  /// [collective]
  template <typename... Objects>
  [[nodiscard]] decltype(auto) prepare(Objects&&... objects) {
    if constexpr (sizeof...(Objects) == 1) {
      return (adopt(std::forward<Objects>(objects)), ...);
    } else {
      return std::tuple<decltype(adopt(std::forward<Objects>(objects)))...>{
          adopt(std::forward<Objects>(objects))...};
    }
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
  /// Computes gradients of `loss` (shape {}) and averages them over the ranks. [collective]
  /// Throws UsageError: a module was called behind its prepared model, parameters got no gradient.
  void backward(const at::Tensor& loss, const BackwardOptions& options = {});

  /// While the scope is alive, backward through `model` does not communicate.
  template <typename Model>
  [[nodiscard]] NoSync no_sync(Model& model) const {
    return NoSync(model.core());
  }

  // --- between ranks
  // ------------------------------------------------------------------------------
  /// The ranks' values one after the other along dim 0. [collective]
  template <Nested T>
  [[nodiscard]] T gather(T value) const {
    return accelerate::gather(communicator(), std::move(value));
  }
  /// As gather, less the samples that even_batches repeated in the last batch of the active loader;
  /// the last batch may be of unequal size on the ranks. [collective]
  template <Nested T>
  [[nodiscard]] T gather_for_metrics(T value) const {
    return detail::transform_tensors(std::move(value), [this](const detail::Tensors& tensors) {
      return gather_tensors_for_metrics(tensors);
    });
  }
  template <Nested T>
  [[nodiscard]] T reduce(T value, ReduceOp op = ReduceOp::sum, double scale = 1.0) const {
    return accelerate::reduce(communicator(), std::move(value), op, scale);
  }
  template <Nested T>
  [[nodiscard]] T broadcast(T value, int from_process = 0) const {
    return accelerate::broadcast(communicator(), std::move(value), from_process);
  }
  template <Nested T>
  [[nodiscard]] T pad_across_processes(T value, const PadOptions& options = {}) const {
    return accelerate::pad_across_processes(communicator(), std::move(value), options);
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

  /// Raises a flag on this rank; check_trigger() is true on all ranks when any had raised it, and
  /// lowers it again. [check_trigger is collective]
  void set_trigger();
  [[nodiscard]] bool check_trigger();

  /// Writes a line to standard output, once per machine.
  void print(const std::string& line) const;

  // --- save
  // ---------------------------------------------------------------------------------------
  /// Writes named tensors as a safetensors file, on the main process only; atomic. Local.
  void save(const std::vector<NamedTensor>& tensors, const std::filesystem::path& file) const;
  /// Writes `model`'s parameters and buffers to `directory`/model.safetensors, on the main process
  /// only; tied parameters once, under their first name. Local. Throws CheckpointError.
  template <typename Model>
  void save_model(const Model& model, const std::filesystem::path& directory) const {
    save_module(model.core()->view(), directory);
  }

  /// The last call of a training: returns when all ranks are done. [collective]
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
        "pass the module or optimizer itself (*pointer), a module holder, or a shared_ptr to a "
        "module");
    static_assert(
        std::is_lvalue_reference_v<Object> ||
            !(detail::kIsModule<T> || detail::kIsScript<T> || detail::kIsOptimizer<T>),
        "prepare() was given a temporary module or optimizer, which ends with this line, while "
        "what prepare() returns goes on using it: give it a name first");
    if constexpr (detail::kIsHolder<T> || detail::kIsSharedModule<T>) {
      return Prepared<T>(object, core_of(*object));
    } else if constexpr (detail::kIsModule<T>) {
      return Prepared<T*>(&object, core_of(object));
    } else if constexpr (detail::kIsScript<T>) {
      return PreparedScript(object, script_core_of(object));
    } else if constexpr (detail::kIsOptimizer<T>) {
      return adopt_optimizer(object);
    } else if constexpr (detail::kIsLoader<T>) {
      return prepare_data_loader(object, loader_context());
    } else if constexpr (std::is_lvalue_reference_v<Object>) {
      return (object);
    } else {
      return T(std::move(object));
    }
  }

  [[nodiscard]] std::shared_ptr<detail::ModelCore> core_of(torch::nn::Module& module);
  [[nodiscard]] std::shared_ptr<detail::ModelCore> script_core_of(torch::jit::Module& module);
  [[nodiscard]] AcceleratedOptimizer adopt_optimizer(torch::optim::Optimizer& optimizer);
  [[nodiscard]] LoaderContext loader_context() const;
  [[nodiscard]] detail::Tensors gather_tensors_for_metrics(const detail::Tensors& tensors) const;
  void save_module(const ModuleView& view, const std::filesystem::path& directory) const;

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accelerate
