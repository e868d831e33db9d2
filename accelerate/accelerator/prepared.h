// What prepare() makes of a model: the user's module, with the engine around its forward.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "accelerate/accelerator/model_core.h"
#include "accelerate/tensor/nested_operations.h"

namespace c10 {
struct IValue;
}
namespace torch {
namespace jit {
struct Module;
}
namespace serialize {
class OutputArchive;
}
}  // namespace torch

namespace accelerate {

namespace detail {
template <typename M, typename... Args>
concept Takes =
    requires(M& module, Args&&... args) { (*module).forward(std::forward<Args>(args)...); };
}  // namespace detail

/// What every prepared model can do, whatever its module.
class PreparedModel {
 public:
  /// The parameters of the user's module, each once.
  [[nodiscard]] std::vector<at::Tensor> parameters() const { return core()->parameters(); }
  /// Returns the parts of the parameters that this rank has, each of shape {n}. They hold a sharded
  /// model's values and gradients. If every rank has the whole model, returns the parameters.
  [[nodiscard]] std::vector<at::Tensor> local_parameters() const {
    return core()->gradient_holders();
  }
  /// While the scope is alive, the parameters of a sharded model are whole, in the type that
  /// optimizers see. [collective, also at its end with writeback]
  [[nodiscard]] SummonScope summon_full_params(const SummonOptions& options = {}) const {
    return {core()->parallel().parts, options};
  }
  /// Sets how gradients travel from the next step on, in place of ddp's comm_hook. Must be the same
  /// on all ranks. An empty hook sends them unchanged. An exception of the hook ends the step and
  /// the group.
  void register_comm_hook(CommHook hook) const {
    core()->parallel().engine->register_comm_hook(std::move(hook));
  }

  [[nodiscard]] const std::shared_ptr<detail::ModelCore>& core() const {
    if (!core_) detail::throw_not_prepared();
    return core_;
  }

 protected:
  PreparedModel() = default;
  explicit PreparedModel(std::shared_ptr<detail::ModelCore> core) : core_(std::move(core)) {}
  [[nodiscard]] bool is_prepared() const { return core_ != nullptr; }

 private:
  std::shared_ptr<detail::ModelCore> core_;
};

/// A prepared module. `M` is a module holder, a shared_ptr to a module, or a pointer to a module on
/// the stack: what prepare(net) returns for `Net net`, shared_ptr<NetImpl> or NetImpl. A handle:
/// copies share the module, and a const one can be called too. Call it or its forward(), never the
/// module directly. One made without arguments, as a member of a class, is empty until one that
/// prepare() returned is assigned to it; its use before throws UsageError.
template <typename M>
class Prepared : public PreparedModel {
 public:
  Prepared() : module_(nullptr) {}
  Prepared(M module, std::shared_ptr<detail::ModelCore> core)
      : PreparedModel(std::move(core)), module_(std::move(module)) {}

  /// Whether a prepared module has been assigned.
  explicit operator bool() const { return is_prepared(); }

  /// Runs the module's forward under mixed_precision's autocast. Outputs in fp16 or bf16, nested
  /// ones too, are then cast to fp32; outputs without tensors come back as they are. Floating
  /// inputs of a sharded model are cast to the type that it computes in.
  template <typename... Args>
  auto forward(Args&&... args) const {
    if constexpr (detail::Takes<M, Args...>) {
      return forward_taken(std::forward<Args>(args)...);
    } else {
      static_assert(detail::kNoType<M, Args...>,
                    "the module's forward does not take these arguments. A batch that is a pair or "
                    "an Example goes in by its parts: model(batch.first), model(batch.data)");
    }
  }
  template <typename... Args>
  auto operator()(Args&&... args) const {
    return forward(std::forward<Args>(args)...);
  }

  /// The user's module.
  [[nodiscard]] auto* operator->() const { return &**this; }
  [[nodiscard]] auto& operator*() const {
    (void)core();
    return *module_;
  }
  /// Returns what was given to prepare(): the holder, the shared_ptr, or the module on the stack.
  [[nodiscard]] auto& unwrap() const {
    if constexpr (std::is_pointer_v<M>) {
      return **this;
    } else {
      (void)core();
      return module_;
    }
  }

  void train(bool on = true) const { (**this).train(on); }
  void eval() const { train(false); }

 private:
  template <typename... Args>
  auto forward_taken(Args&&... args) const {
    detail::ModelCore& core = *this->core();
    const auto run = [&](auto&&... inputs) {
      return core.run_forward([&]() -> decltype(auto) {
        return (*module_).forward(std::forward<decltype(inputs)>(inputs)...);
      });
    };
    const auto run_cast = [&] {
      return core.casts_inputs() ? run(core.input(std::forward<Args>(args))...)
                                 : run(std::forward<Args>(args)...);
    };
    using Output = decltype(run_cast());
    if constexpr (Nested<Output>) {
      return core.casts_outputs() ? core.template output<Output>(run_cast()) : run_cast();
    } else {
      return run_cast();
    }
  }

  mutable M module_;  // A handle, whatever M is: what it leads to is not a part of this.
};

/// Fails to compile, with a sentence that says what to save instead.
template <typename M>
torch::serialize::OutputArchive& operator<<(torch::serialize::OutputArchive& archive,
                                            const Prepared<M>& /*model*/) {
  static_assert(detail::kNoType<M>,
                "torch::save takes a module: torch::save(model.unwrap(), path), or, for the file "
                "that Python reads, accelerator.save_model(model, directory)");
  return archive;
}

/// A prepared TorchScript module.
class PreparedScript : public PreparedModel {
 public:
  PreparedScript(torch::jit::Module& module, std::shared_ptr<detail::ModelCore> core);

  [[nodiscard]] c10::IValue forward(std::vector<c10::IValue> inputs);
  [[nodiscard]] c10::IValue operator()(std::vector<c10::IValue> inputs);

  [[nodiscard]] torch::jit::Module& unwrap() { return *module_; }
  void train(bool on = true);
  void eval() { train(false); }

 private:
  torch::jit::Module* module_;
};

}  // namespace accelerate
