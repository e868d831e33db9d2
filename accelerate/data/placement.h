// Moves the tensors of a batch to their device.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <memory>
#include <vector>

namespace accelerate::detail {

/// Replaces `tensor` by its copy on `device`. Does nothing when it is already there or undefined.
/// Does not wait for the copy when `non_blocking` is set, or when the tensor is page-locked and the
/// device is a GPU.
void move_to_device(at::Tensor& tensor, c10::Device device, bool non_blocking);

/// Replaces a CPU tensor by a page-locked copy, which a GPU reads without help of the CPU.
void pin_for_device(at::Tensor& tensor);

/// A handle for copies that are under way to a device.
class Arrival {
 public:
  virtual ~Arrival() = default;
  /// Makes what the calling thread computes from now on wait for the copies. The loop's thread
  /// calls it before it uses `tensors`, the tensors that were sent.
  virtual void wait(const std::vector<at::Tensor>& tensors) = 0;
};

/// Starts to copy what workers have read, so that batches are on the device before the loop asks
/// for them. Many threads may call it simultaneously.
class DeviceMover {
 public:
  virtual ~DeviceMover() = default;
  /// Returns the copy of `tensor`, which is complete only after the Arrival. Returns the tensor
  /// itself if it is undefined or already there.
  [[nodiscard]] virtual at::Tensor send(const at::Tensor& tensor) = 0;
  /// Returns the Arrival of everything that the calling thread has sent.
  [[nodiscard]] virtual std::shared_ptr<Arrival> sent() = 0;
};

/// Returns a mover that copies to a GPU on a separate stream, beside the computation. Returns null
/// for other devices: their batches are moved when the loop asks for them.
[[nodiscard]] std::shared_ptr<DeviceMover> make_device_mover(c10::Device device);

}  // namespace accelerate::detail
