// Models that are constructed without memory, or on another device than their code says.
//
//   Net net = [] {
//     const auto scope = init_empty_weights();
//     return Net(config);                        // Any module, unchanged. No memory, no time.
//   }();
//   load_checkpoint_in_model(*net, "weights");   // Or materialise(*net): as the constructor says.
#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <optional>

namespace accelerate {

namespace compat {
class FactoryScope;
}

struct InitOptions {
  /// Whether buffers are made like parameters. Unset: ACCELERATE_INIT_INCLUDE_BUFFERS, else false.
  /// false: tensors that require no gradient and are still there when the scope ends get their
  /// memory and values then, on the CPU; until then nobody can tell a buffer from a parameter to
  /// be. Frozen parameters count as buffers. For init_on_device of a real device it does not
  /// matter: everything is made there.
  std::optional<bool> include_buffers;
};

/// A scope of this thread, until it is destroyed. Not to be moved.
class [[nodiscard]] InitScope {
 public:
  InitScope(c10::Device device, const InitOptions& options);
  ~InitScope();
  InitScope(const InitScope&) = delete;
  InitScope& operator=(const InitScope&) = delete;

 private:
  std::unique_ptr<compat::FactoryScope> scope_;
};

/// While the scope is alive, tensors that this thread makes, and does not name a device for, are on
/// the meta device: they have a shape and a dtype and no memory. What constructors do to them is
/// noted and done when they get memory, by materialise or piece by piece by a sharded engine; a
/// value that a constructor asks for (`item()`) is computed at once. The generator that the
/// constructors would draw from is put elsewhere, its seed kept: see docs/big_models.md.
/// Local. Throws ConfigError for a variable that is no boolean. Cost: microseconds an operation
/// while the scope is alive, some hundred bytes for each that writes, none otherwise.
/// Source: `init_empty_weights` of Hugging Face Accelerate.
InitScope init_empty_weights(const InitOptions& options = {});

/// The same for `device`: tensors are made there at once. The meta device is init_empty_weights.
InitScope init_on_device(c10::Device device, const InitOptions& options = {});

}  // namespace accelerate
