// Tensors made on another device than the code says, or on none, to be computed when they are
// needed. Below init_empty_weights and init_on_device.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <memory>
#include <vector>

namespace accelerate::compat {

class Tape;

/// While it is alive, factories on this thread whose caller names no device (empty, zeros, rand,
/// arange, …) make their tensors on `device`. On the meta device these are deferred: what is done
/// to them while a scope is alive is noted and done when they get memory. Scopes nest, the
/// innermost decides on the device. Not to be handed to another thread. Cost: nothing for
/// operations outside of scopes; a few microseconds an operation inside.
class FactoryScope {
 public:
  /// `buffers_too` false: what is still alive at the end of the outermost scope and requires no
  /// gradient gets its memory then, unless an exception ends the scope.
  FactoryScope(c10::Device device, bool buffers_too);
  ~FactoryScope();
  FactoryScope(const FactoryScope&) = delete;
  FactoryScope& operator=(const FactoryScope&) = delete;

  [[nodiscard]] c10::Device device() const { return device_; }
  /// nullptr outside of all scopes of the meta device.
  [[nodiscard]] const std::shared_ptr<Tape>& tape() const { return tape_; }
  /// The innermost of this thread, or nullptr.
  [[nodiscard]] static FactoryScope* current();

 private:
  c10::Device device_;
  bool buffers_too_;
  int exceptions_;
  FactoryScope* outer_;
  std::shared_ptr<Tape> tape_;
  c10::impl::IncludeDispatchKeyGuard guard_;
};

/// Whether `tensor` has no memory and its value is known: made while a FactoryScope of the meta
/// device was alive, on whichever thread. Nanoseconds.
[[nodiscard]] bool is_deferred(const at::Tensor& tensor);

/// What a deferred tensor would hold if it had been made with memory: on the device that the code
/// said, the CPU if it said none, in memory of its own. The tensor itself stays as it is, and every
/// call gives the same values, in whichever order tensors are asked for. Random numbers are those
/// that plain construction draws from the generator as it was when the scope began to draw.
/// Local. Throws UsageError for a tensor that is not deferred or was changed since, and what the
/// operations throw. Cost: those operations; see docs/big_models.md.
[[nodiscard]] at::Tensor deferred_value(const at::Tensor& tensor);

/// Throws UsageError, a sentence about "it", when deferred_value(tensor) would: for what was made
/// on the meta device by other means, and what was changed since.
void check_deferred(const at::Tensor& tensor);

/// Gives memory on `device` to those of `leaves` that are deferred, each once, in this order.
/// Tensors that shared a storage share one afterwards. Throws as deferred_value; then the leaf and
/// those after it are as they were.
void materialise_deferred_(const std::vector<at::Tensor>& leaves, c10::Device device);

}  // namespace accelerate::compat
