// Work of a device that is recorded once and then repeated by one launch.
#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <memory>

namespace accelerate::detail {

/// The kernels of one piece of work, with the addresses of the tensors that they read and write.
/// Used by one thread.
class CapturedGraph {
 public:
  CapturedGraph() = default;
  virtual ~CapturedGraph() = default;
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;

  /// Runs `work` on the stream that capture() will record on. Libraries choose kernels and take
  /// workspaces at their first calls, which a capture must not contain.
  virtual void warm_up(const std::function<void()>& work) = 0;
  /// Records what `work` launches, and runs none of it. Tensors that `work` makes lie in memory of
  /// this graph. Throws what `work` throws, and c10::Error if it did something that a graph cannot
  /// contain, such as reading a value of the device. Then nothing is recorded.
  virtual void capture(const std::function<void()>& work) = 0;
  /// Launches what was recorded, on the calling thread's present stream.
  virtual void replay() = 0;
};

/// Returns an empty graph for `device`; null if it is not a GPU, or if libaccelerate_cuda.so, which
/// has these graphs, is missing or does not fit LibTorch.
[[nodiscard]] std::unique_ptr<CapturedGraph> make_captured_graph(c10::Device device);

}  // namespace accelerate::detail
