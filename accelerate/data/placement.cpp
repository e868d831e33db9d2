#include "accelerate/data/placement.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

namespace accelerate::detail {
namespace {

// Uses only c10's device-independent interface, so it compiles without CUDA.
class StreamArrival final : public Arrival {
 public:
  StreamArrival(c10::Device device, const c10::Stream& copies)
      : device_(device), event_(device.type()) {
    event_.record(copies);
  }
  void wait(const std::vector<at::Tensor>& tensors) override {
    const c10::Stream computation = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
    event_.block(computation);
    for (const at::Tensor& tensor : tensors) {
      // The memory belongs to the copying stream. It must not be reused while this stream computes.
      if (tensor.defined() && tensor.device() == device_) tensor.record_stream(computation);
    }
  }

 private:
  c10::Device device_;
  c10::Event event_;
};

class StreamMover final : public DeviceMover {
 public:
  explicit StreamMover(c10::Device device)
      : device_(device),
        stream_(c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device)) {}

  at::Tensor send(const at::Tensor& tensor) override {
    if (!tensor.defined() || tensor.device() == device_) return tensor;
    const c10::StreamGuard on_side_stream(stream_);
    return tensor.to(device_, /*non_blocking=*/true);
  }
  std::shared_ptr<Arrival> sent() override {
    return std::make_shared<StreamArrival>(device_, stream_);
  }

 private:
  c10::Device device_;
  c10::Stream stream_;
};

// "cuda" without a number means the current GPU of the calling thread. Workers have another one.
c10::Device numbered(c10::Device device) {
  if (device.has_index()) return device;
  return c10::impl::VirtualGuardImpl(device.type()).getDevice();
}

}  // namespace

void move_to_device(at::Tensor& tensor, c10::Device device, bool non_blocking) {
  if (!tensor.defined() || tensor.device() == device) return;
  // "cuda" without a number is the current GPU; `to` resolves it.
  const bool waits = !non_blocking && !(device.is_cuda() && tensor.is_cpu() && tensor.is_pinned());
  tensor = tensor.to(device, /*non_blocking=*/!waits);
}

void pin_for_device(at::Tensor& tensor) {
  if (tensor.defined() && tensor.is_cpu()) tensor = tensor.pin_memory();
}

std::shared_ptr<DeviceMover> make_device_mover(c10::Device device) {
  if (!device.is_cuda()) return nullptr;
  return std::make_shared<StreamMover>(numbered(device));
}

}  // namespace accelerate::detail
