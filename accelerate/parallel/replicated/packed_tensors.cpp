#include "accelerate/parallel/replicated/packed_tensors.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>

#include <utility>

#include "accelerate/parallel/gradients/bucket_store.h"

namespace accelerate::detail {

PackedTensors::PackedTensors(const std::vector<at::Tensor>& tensors) {
  const at::NoGradGuard no_grad;
  for (auto& members : assign_buckets(tensors, {.first_bytes = 25 << 20, .cap_bytes = 25 << 20})) {
    Part part;
    std::vector<at::Tensor> flat;
    for (const std::size_t i : members) {
      part.tensors.push_back(tensors[i]);
      flat.push_back(tensors[i].detach().reshape({-1}));
    }
    part.flat = at::cat(flat);
    parts_.push_back(std::move(part));
  }
}

void PackedTensors::broadcast(Communicator& communicator, int source) {
  for (auto& part : parts_) part.work = communicator.broadcast(part.flat, source);
}

void PackedTensors::average(Communicator& communicator) {
  for (auto& part : parts_) {
    if (!part.flat.is_floating_point() && !part.flat.is_complex()) continue;
    part.work = communicator.all_reduce(part.flat, ReduceOp::mean);
  }
}

void PackedTensors::wait() {
  for (auto& part : parts_) part.work.wait();
}

void PackedTensors::store() {
  const at::NoGradGuard no_grad;
  for (auto& part : parts_) {
    std::int64_t offset = 0;
    for (auto& tensor : part.tensors) {
      const auto value = part.flat.narrow(0, offset, tensor.numel()).view(tensor.sizes());
      if (!tensor.equal(value)) tensor.copy_(value);
      offset += tensor.numel();
    }
  }
}

}  // namespace accelerate::detail
