// Constructs models without memory, or on a device that their code does not name.
//
//   Net net = [] {
//     const auto scope = init_empty_weights();
//     return Net(config);  // Any module, unchanged. It takes no memory and no time.
//   }();
//   load_checkpoint_in_model(*net, "weights");  // Or materialise(*net): the constructor's values.
#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <optional>

#include "accelerate/tensor/module_view.h"

namespace accelerate {

namespace compat {
class FactoryScope;
}

struct InitOptions {
  /// Whether buffers stay without memory, as parameters do. Default:
  /// ACCELERATE_INIT_INCLUDE_BUFFERS, else false. If false, a tensor that requires no gradient gets
  /// its memory and values, on the CPU, when the scope ends. Before that, a buffer cannot be told
  /// from a future parameter. Frozen parameters count as buffers. The option has no effect on
  /// init_on_device with a real device, where everything is made immediately.
  std::optional<bool> include_buffers;
};

/// Redirects the tensors of this thread until it is destroyed. Cannot be moved, and must stay on
/// its thread.
class [[nodiscard]] InitScope {
 public:
  InitScope(c10::Device device, const InitOptions& options);
  ~InitScope();
  InitScope(const InitScope&) = delete;
  InitScope& operator=(const InitScope&) = delete;

 private:
  std::unique_ptr<compat::FactoryScope> scope_;
};

/// While the scope is alive, this thread's new tensors are on the meta device unless the code names
/// a device: they have a shape and a dtype, but no memory. What constructors do to them is
/// recorded. It is done when the tensors get memory, by materialise() or piece by piece by a
/// sharded engine. A value that a constructor reads (`item()`) is computed immediately. The
/// constructors draw random numbers from a copy of the generator; see docs/big_models.md for what
/// happens to the generator. Local. Throws ConfigError if the environment variable is not a
/// boolean. Cost while the scope is alive: microseconds per operation, and some hundred bytes per
/// operation that writes. No cost afterwards. Source: `init_empty_weights` of Hugging Face
/// Accelerate.
InitScope init_empty_weights(const InitOptions& options = {});

/// As init_empty_weights, but tensors are made on `device`, immediately if it is a real device.
InitScope init_on_device(c10::Device device, const InitOptions& options = {});

struct MaterialiseOptions {
  c10::Device device = c10::kCPU;  ///< Where the memory is. Values are computed on the CPU.
};

/// Gives memory to every parameter and buffer of `module` that has none, with the values that its
/// constructors would have given it. They equal plain construction from the same seed bit for bit,
/// even if sub-modules are materialised one by one, in any order, on several ranks. Tensors that
/// have memory are left alone, so a checkpoint may be loaded first. Tensors stay the same objects:
/// optimizers and members keep them, and tied parameters stay tied. Local. Throws UsageError if a
/// tensor was made on the meta device by hand, or was changed or converted (`to(dtype)`) after the
/// scope. The error names the first such tensor and the reason; nothing has changed then. Cost: the
/// constructor's operations. Peak memory: the model and one more tensor. The first part of a model
/// to be materialised also draws the random numbers of the parts before it, once.
void materialise(torch::nn::Module& module, const MaterialiseOptions& options = {});
void materialise(const ModuleView& model, const MaterialiseOptions& options = {});

}  // namespace accelerate
