#include "accelerate/comm/nccl.h"

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

namespace accelerate::detail {

bool has_nccl() {
  return true;
}

c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    const NcclOptions& options) {
  using c10d::ProcessGroupNCCL;
  auto nccl = ProcessGroupNCCL::Options::create(/*is_high_priority_stream=*/false);
  nccl->timeout = options.timeout;
  auto backend = c10::make_intrusive<ProcessGroupNCCL>(store, options.rank, options.size, nccl);
  backend->setBoundDeviceId(options.device);
  return backend;
}

}  // namespace accelerate::detail
