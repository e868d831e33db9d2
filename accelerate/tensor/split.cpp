#include "accelerate/tensor/split.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <numeric>

namespace accelerate::detail {

std::vector<std::int64_t> split_positions(std::int64_t length, int rank, int size,
                                          const SplitOptions& options) {
  const std::int64_t each = length / size, extra = length % size;
  const std::int64_t begin = rank * each + std::min<std::int64_t>(rank, extra);
  std::vector<std::int64_t> positions(static_cast<std::size_t>(each + (rank < extra ? 1 : 0)));
  std::iota(positions.begin(), positions.end(), begin);
  if (options.apply_padding && length > 0) {
    positions.resize(static_cast<std::size_t>(each + (extra > 0 ? 1 : 0)), length - 1);
  }
  return positions;
}

std::int64_t length_of(const at::Tensor& value) {
  if (value.dim() == 0)
    throw UsageError("split_between_processes: a tensor without dimensions cannot be split");
  return value.size(0);
}

at::Tensor take(const at::Tensor& value, const std::vector<std::int64_t>& positions) {
  return value.index_select(0, at::tensor(positions, at::kLong).to(value.device()));
}

}  // namespace accelerate::detail
