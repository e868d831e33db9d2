// Where the tensors of a batch lie.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <memory>
#include <vector>

namespace accelerate::detail {

/// Replaces `tensor` by its copy on `device`; nothing happens when it is there or undefined. Does
/// not wait for the copy when `non_blocking` or when the tensor is page-locked.
void move_to_device(at::Tensor& tensor, c10::Device device, bool non_blocking);

/// Replaces a CPU tensor by a page-locked copy, from which a GPU reads without the help of the CPU.
void pin_for_device(at::Tensor& tensor);

/// Copies under way to a device.
class Arrival {
 public:
  virtual ~Arrival() = default;
  /// Called on the loop's thread before it sees `tensors`, which are those that were sent: what it
  /// computes from now on comes after their arrival.
  virtual void wait(const std::vector<at::Tensor>& tensors) = 0;
};

/// Starts to copy what workers have read, so that batches are on the device before the loop asks
/// for them. Called by many threads at once.
class DeviceMover {
 public:
  virtual ~DeviceMover() = default;
  /// The copy of `tensor`, complete only after the Arrival. Undefined tensors and those that are
  /// there already come back as they are.
  [[nodiscard]] virtual at::Tensor send(const at::Tensor& tensor) = 0;
  /// Of everything that the calling thread has sent.
  [[nodiscard]] virtual std::shared_ptr<Arrival> sent() = 0;
};

/// Copies to a GPU on a stream of its own, beside the computation. Null for other devices: their
/// batches are moved when the loop asks for them.
[[nodiscard]] std::shared_ptr<DeviceMover> make_device_mover(c10::Device device);

}  // namespace accelerate::detail
