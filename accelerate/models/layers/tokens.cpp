#include "accelerate/models/layers/tokens.h"

#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>
#include <sstream>

#include "accelerate/base/error.h"

namespace accelerate::detail {
namespace {

at::Tensor to_tensor(const std::vector<std::int64_t>& values, c10::Device device) {
  return at::tensor(values, at::TensorOptions(at::kLong)).to(device);
}

}  // namespace

Tokens::Tokens(std::int64_t rows, std::int64_t length, const at::Tensor& mask,
               const Options& options)
    : rows_(rows), length_(length), past_(options.past) {
  if (!mask.defined()) return;
  const std::int64_t keys = past_ + length;
  const auto is_one_or = [](std::int64_t found, std::int64_t all) {
    return found == 1 || found == all;
  };
  if (mask.dim() == 4 && is_one_or(mask.size(0), rows) && mask.size(1) == 1 &&
      is_one_or(mask.size(2), length) && mask.size(3) == keys) {
    mask_ = mask;
    has_whole_mask_ = true;
    return;
  }
  if (mask.dim() != 2 || mask.size(0) != rows || mask.size(1) != keys) {
    std::ostringstream found;
    found << mask.sizes();
    throw UsageError("the attention mask has the shape " + found.str() + "; allowed are [" +
                     std::to_string(rows) + ", " + std::to_string(keys) + "] and [" +
                     std::to_string(rows) + ", 1, " + std::to_string(length) + ", " +
                     std::to_string(keys) + "]");
  }
  const at::Tensor counts = mask.detach().to(at::kBool);
  const at::Tensor on_cpu = counts.to(at::kCPU).contiguous();
  const bool* begin = on_cpu.const_data_ptr<bool>();
  if (std::all_of(begin, begin + on_cpu.numel(), [](bool is_kept) { return is_kept; })) return;
  if (options.drops_padding && drop_padding(on_cpu, options.needs_first_column)) {
    places_ = places_.to(mask.device());
    firsts_ = firsts_.to(mask.device());
    return;
  }
  mask_ = counts.view({rows, 1, 1, keys});
}

Tokens Tokens::flattened(std::vector<std::int64_t> lengths) {
  Tokens tokens(1, std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}), {}, {});
  tokens.lengths_ = std::move(lengths);
  return tokens;
}

bool Tokens::drop_padding(const at::Tensor& mask, bool needs_first_column) {
  std::vector<std::int64_t> places, firsts, lengths;
  const bool* kept = mask.const_data_ptr<bool>();
  for (std::int64_t row = 0; row < rows_; ++row, kept += length_) {
    const bool* end = kept + length_;
    const bool* first = std::find(kept, end, true);
    const bool* behind = std::find(first, end, false);
    const bool has_hole = std::find(behind, end, true) != end;
    if (first == end || has_hole || (needs_first_column && first != kept)) return false;
    firsts.push_back(static_cast<std::int64_t>(places.size()));
    lengths.push_back(behind - first);
    for (const bool* at = first; at != behind; ++at) places.push_back(row * length_ + (at - kept));
  }
  lengths_ = std::move(lengths);
  places_ = to_tensor(places, at::kCPU);
  firsts_ = to_tensor(firsts, at::kCPU);
  return true;
}

at::Tensor Tokens::take(const at::Tensor& values) const {
  if (!is_packed() || !values.defined()) return values;
  const at::Tensor all = values.flatten(0, 1);
  return places_.defined() ? all.index_select(0, places_) : all;
}

at::Tensor Tokens::restore(const at::Tensor& values) const {
  if (!is_packed() || !values.defined()) return values;
  if (!places_.defined()) return values.unsqueeze(0);
  std::vector<std::int64_t> shape = values.sizes().vec();
  shape.front() = rows_ * length_;
  const at::Tensor restored = at::zeros(shape, values.options()).index_copy(0, places_, values);
  shape.front() = length_;
  shape.insert(shape.begin(), rows_);
  return restored.view(shape);
}

at::Tensor Tokens::first(const at::Tensor& values) const {
  return is_packed() ? values.index_select(0, firsts_) : values.select(1, 0);
}

}  // namespace accelerate::detail
