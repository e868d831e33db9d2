#include "accelerate/data/dispatch.h"

#include <ATen/ops/full.h>

#include <algorithm>

#include "accelerate/base/error.h"

namespace accelerate::detail {
namespace {

bool has_dimension(const at::Tensor& tensor, std::int64_t dim) {
  return tensor.defined() && dim < tensor.dim();
}

at::Tensor padded(const at::Tensor& tensor, std::int64_t dim, std::int64_t length, double value) {
  auto sizes = tensor.sizes().vec();
  if (sizes[static_cast<std::size_t>(dim)] == length) return tensor;
  sizes[static_cast<std::size_t>(dim)] = length;
  at::Tensor result = at::full(sizes, value, tensor.options());
  result.narrow(dim, 0, tensor.size(dim)).copy_(tensor);
  return result;
}

}  // namespace

void pad_to_longest(const std::vector<std::vector<at::Tensor*>>& batches, std::int64_t dim,
                    double value) {
  if (dim < 1) {
    throw ConfigError("PadToLongest was given dim " + std::to_string(dim) +
                      "; dimension 0 counts samples, so it must be at least 1.");
  }
  for (std::size_t place = 0; place < batches.front().size(); ++place) {
    std::int64_t longest = 0;
    for (const auto& tensors : batches) {
      if (place >= tensors.size()) return;  // Joining the batches reports the error.
      if (!has_dimension(*tensors[place], dim)) continue;
      longest = std::max(longest, tensors[place]->size(dim));
    }
    for (const auto& tensors : batches) {
      at::Tensor& tensor = *tensors[place];
      if (has_dimension(tensor, dim)) tensor = padded(tensor, dim, longest, value);
    }
  }
}

}  // namespace accelerate::detail
