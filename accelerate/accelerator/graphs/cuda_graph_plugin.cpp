// Graphs of CUDA. Part of libaccelerate_cuda.so, which captured_graph.cpp opens. Needs CUDA's headers.
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/version.h>

#include "accelerate/accelerator/graphs/captured_graph.h"

namespace accelerate::detail {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

// Runs one part of giving up a capture; parts that were never begun throw.
template <typename Part>
void quietly(Part&& part) noexcept {
  try {
    part();
  } catch (const std::exception&) {
  }
}

template <typename State>
concept KnowsOfCaptures = requires(State& state) { state.capturing_; };
static_assert(KnowsOfCaptures<at::CUDAGeneratorState> || TORCH_VERSION_MAJOR > 2 ||
              TORCH_VERSION_MINOR > 11);

// A graph whose capture may fail. After that, the device's random generator of LibTorch 2.11
// believes for ever that it is being captured, and refuses to draw numbers.
struct FallibleGraph : at::cuda::CUDAGraph {
  void release_generators() {
    for (auto& [state, increment] : captured_generator_states_) end_capture_of(*state);
  }

 private:
  template <typename State>
  static void end_capture_of(State& state) {
    if constexpr (KnowsOfCaptures<State>) state.capturing_ = false;
  }
};

class CudaGraph final : public CapturedGraph {
 public:
  explicit CudaGraph(c10::Device device)
      : device_(device),
        stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index())) {}

  void warm_up(const std::function<void()>& work) override { run_on_stream(work); }

  void capture(const std::function<void()>& work) override {
    graph_.reset();
    c10::cuda::CUDAGuard guard(device_);
    c10::cuda::device_synchronize();
    allocator::emptyCache();  // The graph's memory is not shared with others.
    auto graph = std::make_unique<FallibleGraph>();
    const auto pool = at::cuda::graph_pool_handle();
    run_on_stream([&] {
      try {
        // Other threads, such as a loader's, may keep calling CUDA.
        graph->capture_begin(pool, cudaStreamCaptureModeThreadLocal);
        work();
        graph->capture_end();
      } catch (...) {
        give_up(*graph, pool);
        throw;
      }
    });
    graph_ = std::move(graph);
  }

  void replay() override {
    c10::cuda::CUDAGuard guard(device_);
    graph_->replay();
  }

 private:
  // The stream waits for what is under way, and what comes later waits for the stream.
  void run_on_stream(const std::function<void()>& work) {
    const auto outer = c10::cuda::getCurrentCUDAStream(device_.index());
    at::cuda::CUDAEvent before;
    before.record(outer);
    before.block(stream_);
    {
      c10::cuda::CUDAStreamGuard on_stream(stream_);
      work();
    }
    at::cuda::CUDAEvent after;
    after.record(stream_);
    after.block(outer);
  }

  // Ends a capture that failed. CUDAGraph::capture_end() throws before it tells the generators and
  // the allocators, which would then hold freed blocks back for ever. The error of the work is the
  // one to report.
  void give_up(FallibleGraph& graph, at::MempoolId_t pool) const noexcept {
    bool has_ended = false;
    quietly([&] {
      graph.capture_end();
      has_ended = true;
    });
    (void)cudaGetLastError();
    if (!has_ended) {
      graph.release_generators();
      quietly([&] { allocator::endAllocateToPool(device_.index(), pool); });
      quietly([&] { allocator::releasePool(device_.index(), pool); });
      auto* const pinned = at::getHostAllocator(at::kCUDA);
      quietly([&] { pinned->end_allocate_to_pool(pool); });
      quietly([&] { pinned->release_pool(pool); });
    }
    quietly([&] { graph.reset(); });
  }

  c10::Device device_;
  c10::cuda::CUDAStream stream_;
  std::unique_ptr<FallibleGraph> graph_;
};

}  // namespace
}  // namespace accelerate::detail

// The caller owns what it returns.
extern "C" accelerate::detail::CapturedGraph* accelerate_make_cuda_graph(c10::Device device) {
  if (!device.has_index()) device = c10::Device(c10::kCUDA, c10::cuda::current_device());
  return new accelerate::detail::CudaGraph(device);
}
