#include "accelerate/comm/shared_memory/tensor_parts.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "accelerate/comm/communicable_tensors.h"
#include "accelerate/comm/shared_memory/kernels.h"

namespace accelerate::detail {
const at::Tensor& checked(const at::Tensor& tensor) {
  if (tensor.defined() && tensor.device().is_cpu() && tensor.layout() == at::kStrided &&
      tensor.is_contiguous()) {
    return tensor;
  }
  throw UsageError("a collective through shared memory needs a contiguous, dense CPU tensor");
}

Reduction reduction_of(const at::Tensor& tensor, const c10d::ReduceOp& op) {
  const Reduction reduction{tensor.scalar_type(), op_of_c10d(op)};
  const bool bits = reduction.op == ReduceOp::band || reduction.op == ReduceOp::bor ||
                    reduction.op == ReduceOp::bxor;
  if (!has_kernel(reduction.dtype) ||
      (bits && !at::isIntegralType(reduction.dtype, /*includeBool=*/true))) {
    throw UsageError(std::string("tensors of ") + c10::toString(reduction.dtype) +
                     " have no reduction '" + std::string(to_string(reduction.op)) + "'");
  }
  return reduction;
}

std::byte* data_of(const at::Tensor& tensor) {
  return static_cast<std::byte*>(tensor.data_ptr());
}
Part part_of(const at::Tensor& tensor) {
  return {data_of(checked(tensor)), tensor.nbytes()};
}
Addresses parts_of(const at::Tensor& whole, int size) {
  const std::size_t bytes = checked(whole).nbytes() / static_cast<std::size_t>(size);
  Addresses parts;
  for (int rank = 0; rank < size; ++rank) {
    parts.push_back(data_of(whole) + static_cast<std::size_t>(rank) * bytes);
  }
  return parts;
}
Addresses addresses_of(const Tensors& tensors, const at::Tensor& like, int size) {
  const bool fits = tensors.size() == static_cast<std::size_t>(size) &&
                    std::all_of(tensors.begin(), tensors.end(), [&](const at::Tensor& tensor) {
                      return checked(tensor).numel() == like.numel() &&
                             tensor.scalar_type() == like.scalar_type();
                    });
  if (!fits) {
    throw UsageError("a list of tensors must have one for each of the " + std::to_string(size) +
                     " ranks, alike in size and dtype");
  }
  Addresses addresses;
  for (const auto& tensor : tensors) addresses.push_back(data_of(tensor));
  return addresses;
}

bool lie_side_by_side(const Addresses& parts, std::size_t bytes) {
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (parts[i] != parts[0] + i * bytes) return false;
  }
  return !parts.empty();
}

std::vector<Part> equal_parts(const at::Tensor& whole, int size) {
  std::vector<Part> parts;
  const std::size_t bytes = whole.nbytes() / static_cast<std::size_t>(size);
  for (std::byte* data : parts_of(whole, size)) parts.push_back({data, bytes});
  return parts;
}

}  // namespace accelerate::detail
