#include "accelerate/tensor/nested_operations.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"

namespace accelerate::detail {

at::Tensor to_fp32(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  const auto type = tensor.scalar_type();
  return type == at::kHalf || type == at::kBFloat16 ? tensor.to(at::kFloat) : tensor;
}

at::Tensor moved(const at::Tensor& tensor, c10::Device device, bool non_blocking) {
  return tensor.defined() ? tensor.to(device, non_blocking) : tensor;
}

void check_same_keys(const std::vector<std::string>& first, const std::vector<std::string>& other) {
  if (first == other) return;
  throw UsageError("concatenate was given values of different structure: the first has the keys '" +
                   join(first, "', '") + "', another one '" + join(other, "', '") + "'");
}

Tensors concatenate(const std::vector<Tensors>& parts, std::int64_t dim) {
  if (parts.empty()) throw UsageError("concatenate was given no values; at least one is needed");
  const std::size_t slots = parts.front().size();
  Tensors joined;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].size() == slots) continue;
    throw UsageError("concatenate was given values of different structure: value 0 holds " +
                     std::to_string(slots) + " tensors, value " + std::to_string(i) + " holds " +
                     std::to_string(parts[i].size()));
  }
  for (std::size_t slot = 0; slot < slots; ++slot) {
    Tensors column;
    for (const Tensors& part : parts) column.push_back(part[slot]);
    joined.push_back(column.size() == 1 ? column.front() : at::cat(column, dim));
  }
  return joined;
}

std::int64_t batch_size_of(const Tensors& tensors) {
  const auto first = std::ranges::find_if(tensors, &at::Tensor::defined);
  if (first == tensors.end()) {
    throw UsageError("find_batch_size was given a value without tensors");
  }
  if (first->dim() == 0) {
    throw UsageError(
        "find_batch_size: the first tensor is a scalar, which has no batch dimension; a shape "
        "[batch, …] is needed");
  }
  return first->size(0);
}

at::Tensor padded_to_multiple(const at::Tensor& tensor, std::int64_t batch_size,
                              std::int64_t multiple, std::int64_t dim) {
  if (!tensor.defined()) return tensor;
  if (multiple < 1) {
    throw UsageError("pad_input_tensors: num_processes is " + std::to_string(multiple) +
                     "; at least 1 is allowed");
  }
  const bool has_dim = dim < tensor.dim() && dim >= -tensor.dim();
  if (!has_dim || tensor.size(dim) != batch_size || batch_size < 1) {
    throw UsageError("pad_input_tensors: a tensor of shape " + c10::str(tensor.sizes()) +
                     " does not have the " + std::to_string(batch_size) + " rows along dim " +
                     std::to_string(dim) + " that batch_size says; at least one is needed");
  }
  const std::int64_t missing = (multiple - batch_size % multiple) % multiple;
  if (missing == 0) return tensor;
  const at::Tensor last = tensor.narrow(dim, batch_size - 1, 1);
  return at::cat({tensor, last.repeat_interleave(missing, dim)}, dim);
}

}  // namespace accelerate::detail
