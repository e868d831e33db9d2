// Makes tensors on another device than the code says, or without memory; their values are then
// computed when they are needed. The basis of init_empty_weights and init_on_device.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <memory>
#include <vector>

#include "accelerate/tensor/compat/interception.h"

namespace accelerate::compat {

class Tape;

/// While it is alive, factories (empty, zeros, rand, arange, …) that this thread calls without a
/// device make their tensors on `device`. On the meta device these tensors are deferred: operations
/// on them while a scope is alive are recorded, and executed when the tensors get memory. Scopes
/// nest; the innermost scope decides on the device. Must stay on its thread. Cost: nothing for
/// operations outside of scopes; a few microseconds an operation inside.
class FactoryScope {
 public:
  /// If `buffers_too` is false, deferred tensors that require no gradient get their memory at the
  /// end of the outermost scope, if they still exist. They do not if an exception ends the scope.
  FactoryScope(c10::Device device, bool buffers_too);
  ~FactoryScope();
  FactoryScope(const FactoryScope&) = delete;
  FactoryScope& operator=(const FactoryScope&) = delete;

  [[nodiscard]] c10::Device device() const { return device_; }
  /// nullptr outside of all scopes of the meta device.
  [[nodiscard]] const std::shared_ptr<Tape>& tape() const { return tape_; }
  /// Returns the innermost scope of this thread, or nullptr.
  [[nodiscard]] static FactoryScope* current();

 private:
  c10::Device device_;
  bool buffers_too_;
  int exceptions_;
  FactoryScope* outer_;
  std::shared_ptr<Tape> tape_;
  InterceptionScope interception_;
};

/// Whether `tensor` has no memory but its value is known, because it was made while a FactoryScope
/// of the meta device was alive, on any thread. Nanoseconds.
[[nodiscard]] bool is_deferred(const at::Tensor& tensor);

/// Returns the value that a deferred tensor would have if it had been made with memory. The result
/// is in new memory, on the device that the code named, or else on the CPU. The tensor itself does
/// not change. Every call returns the same values, in any order of calls. Random numbers are as in
/// plain construction, which draws from the generator, starting from its state when the scope began
/// to draw. Local. Throws UsageError for a tensor that is not deferred or was changed since, and
/// what the operations throw. Cost: the operations; see docs/big_models.md.
[[nodiscard]] at::Tensor deferred_value(const at::Tensor& tensor);

/// Throws UsageError, a sentence about "it", when deferred_value(tensor) would. This is so for a
/// tensor made on the meta device by other means, and for a tensor that was changed since.
void check_deferred(const at::Tensor& tensor);

/// Gives memory on `device` to the deferred tensors among `leaves`, each once, in this order.
/// Tensors that shared a storage share one afterwards. Throws as deferred_value. Then the failing
/// leaf and all later leaves are unchanged.
void materialise_deferred_(const std::vector<at::Tensor>& leaves, c10::Device device);

}  // namespace accelerate::compat
