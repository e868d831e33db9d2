// Replaces nccl.cpp when LibTorch has no CUDA.
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "accelerate/base/error.h"
#include "accelerate/comm/nccl.h"

namespace accelerate::detail {

bool has_nccl() {
  return false;
}

c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>&,
                                                    const NcclOptions&) {
  throw ConfigError(
      "backend is 'nccl', and accelerate.cpp was compiled without NCCL: its LibTorch has no CUDA. "
      " Use backend 'gloo', or build with a CUDA LibTorch (tools/gpu_check shows how).");
}

}  // namespace accelerate::detail
