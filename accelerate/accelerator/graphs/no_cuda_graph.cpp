// Stands in for cuda_graph.cpp when LibTorch has no CUDA, or its headers were not found.
#include "accelerate/accelerator/graphs/captured_graph.h"

namespace accelerate::detail {

std::unique_ptr<CapturedGraph> make_captured_graph(c10::Device) {
  return nullptr;
}

}  // namespace accelerate::detail
