// Part of libaccelerate_cuda.so, which nccl.cpp opens. Needs the headers of CUDA and NCCL.
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "accelerate/comm/nccl.h"

// The caller owns what it returns.
extern "C" c10d::Backend* accelerate_make_nccl_backend(
    const c10::intrusive_ptr<c10d::Store>* store, const accelerate::detail::NcclOptions* options) {
  using c10d::ProcessGroupNCCL;
  auto nccl = ProcessGroupNCCL::Options::create(/*is_high_priority_stream=*/false);
  nccl->timeout = options->timeout;
  auto backend = c10::make_intrusive<ProcessGroupNCCL>(*store, options->rank, options->size, nccl);
  backend->setBoundDeviceId(options->device);
  return backend.release();
}
