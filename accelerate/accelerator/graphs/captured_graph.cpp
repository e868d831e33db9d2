#include "accelerate/accelerator/graphs/captured_graph.h"

#include "accelerate/tensor/compat/cuda_library.h"

namespace accelerate::detail {

std::unique_ptr<CapturedGraph> make_captured_graph(c10::Device device) {
  if (!device.is_cuda()) return nullptr;
  const auto make = compat::cuda_function("accelerate_make_cuda_graph");
  if (make.address == nullptr) return nullptr;
  return std::unique_ptr<CapturedGraph>(
      reinterpret_cast<CapturedGraph* (*)(c10::Device)>(make.address)(device));
}

}  // namespace accelerate::detail
