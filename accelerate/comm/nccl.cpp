#include "accelerate/comm/nccl.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/tensor/compat/cuda_library.h"

namespace accelerate::detail {
namespace {

using MakeBackend = c10d::Backend*(const c10::intrusive_ptr<c10d::Store>*, const NcclOptions*);

compat::CudaFunction maker_of_nccl() {
  return compat::cuda_function("accelerate_make_nccl_backend");
}

}  // namespace

bool has_nccl() {
  return maker_of_nccl().address != nullptr;
}

void require_nccl() {
  const auto maker = maker_of_nccl();
  if (maker.address != nullptr) return;
  throw ConfigError(
      "GPUs of several ranks talk by NCCL, and it is not there: " + maker.why_not +
          ". Build with a LibTorch that has CUDA (tools/gpu_check does), set "
          "init_process_group.backend = \"gloo\", or train on the CPU with `accelerate "
          "launch --cpu`.",
      error_name::kNoNccl);
}

c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    const NcclOptions& options) {
  require_nccl();
  auto* const make = reinterpret_cast<MakeBackend*>(maker_of_nccl().address);
  return c10::intrusive_ptr<c10d::Backend>::reclaim(make(&store, &options));
}

}  // namespace accelerate::detail
