#include "accelerate/transformers/models/layers/tokens.h"

#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "accelerate/base/error.h"

namespace accelerate::detail {
namespace {

at::Tensor to_tensor(const std::vector<std::int64_t>& values) {
  return at::tensor(values, at::TensorOptions(at::kLong).device(at::kCPU));
}

struct MaskSize {
  std::int64_t rows, length, keys;
};

bool is_whole_mask(const at::Tensor& mask, const MaskSize& size) {
  const auto is_one_or = [](std::int64_t found, std::int64_t all) {
    return found == 1 || found == all;
  };
  return mask.dim() == 4 && is_one_or(mask.size(0), size.rows) && mask.size(1) == 1 &&
         is_one_or(mask.size(2), size.length) && mask.size(3) == size.keys;
}

// Returns booleans {rows, keys} on the CPU: whether a token counts. Undefined if all do.
at::Tensor kept_of(const at::Tensor& mask, const MaskSize& size) {
  if (mask.dim() != 2 || mask.size(0) != size.rows || mask.size(1) != size.keys) {
    std::ostringstream found;
    found << mask.sizes();
    const std::string rows = std::to_string(size.rows), keys = std::to_string(size.keys);
    throw UsageError("the attention mask has the shape " + found.str() + "; allowed are [" + rows +
                     ", " + keys + "] and [" + rows + ", 1, " + std::to_string(size.length) + ", " +
                     keys + "]");
  }
  const at::Tensor counts = mask.detach().to(at::kCPU, at::kBool).contiguous();
  const bool* begin = counts.const_data_ptr<bool>();
  const bool all = std::all_of(begin, begin + counts.numel(), [](bool is_kept) { return is_kept; });
  return all ? at::Tensor() : counts;
}

struct Stretch {
  std::int64_t begin, end;
};

// Returns where the tokens of a row stand that are kept; all if `kept` is null. Nullopt if there is
// none, or another token between them.
std::optional<Stretch> stretch_of(const bool* kept, std::int64_t length) {
  if (kept == nullptr) return Stretch{0, length};
  const bool* end = kept + length;
  const bool* first = std::find(kept, end, true);
  const bool* behind = std::find(first, end, false);
  if (first == end || std::find(behind, end, true) != end) return std::nullopt;
  return Stretch{first - kept, behind - kept};
}

// Adds the lengths of the sequences in a stretch of a row.
void add_lengths(Stretch stretch, const std::vector<std::int64_t>* begins,
                 std::vector<std::int64_t>& lengths) {
  if (begins != nullptr) {
    for (const std::int64_t begin : *begins) {
      if (begin <= stretch.begin || begin >= stretch.end) continue;
      lengths.push_back(begin - stretch.begin);
      stretch.begin = begin;
    }
  }
  lengths.push_back(stretch.end - stretch.begin);
}

compat::SequenceBounds bounds_of(const std::vector<std::int64_t>& lengths, c10::Device device) {
  std::vector<std::int32_t> starts{0};
  for (const std::int64_t length : lengths)
    starts.push_back(starts.back() + static_cast<std::int32_t>(length));
  return {.starts = at::tensor(starts, at::TensorOptions(at::kInt)).to(device),
          .longest = std::ranges::max(lengths)};
}

}  // namespace

Tokens::Tokens(std::int64_t rows, std::int64_t length, const at::Tensor& mask,
               const Options& options)
    : rows_(rows), length_(length), past_(options.past) {
  const std::int64_t keys = past_ + length;
  if (mask.defined() && is_whole_mask(mask, {rows, length, keys})) {
    mask_ = mask;
    has_whole_mask_ = true;
    return;
  }
  const at::Tensor counts = mask.defined() ? kept_of(mask, {rows, length, keys}) : at::Tensor();
  if (!counts.defined() && options.begins.empty()) return;
  if (options.packs && (options.drops_padding || !counts.defined()) && pack(counts, options))
    return;
  if (counts.defined()) mask_ = counts.view({rows, 1, 1, keys});
  if (!options.begins.empty()) {
    const at::Tensor same = same_sequence(options.begins, length, keys);
    mask_ = mask_.defined() ? mask_.logical_and(same) : same;
  }
  mask_ = mask_.to(options.device);
}

bool Tokens::pack(const at::Tensor& counts, const Options& options) {
  const bool* kept = counts.defined() ? counts.const_data_ptr<bool>() : nullptr;
  std::vector<std::int64_t> places, firsts, lengths;
  std::vector<std::size_t> first_sequences;
  std::int64_t tokens = 0;
  for (std::int64_t row = 0; row < rows_; ++row) {
    const auto stretch = stretch_of(kept == nullptr ? nullptr : kept + row * length_, length_);
    if (!stretch || (options.needs_first_column && stretch->begin != 0)) return false;
    firsts.push_back(tokens);
    first_sequences.push_back(lengths.size());
    const auto* begins =
        options.begins.empty() ? nullptr : &options.begins[static_cast<std::size_t>(row)];
    add_lengths(*stretch, begins, lengths);
    tokens += stretch->end - stretch->begin;
    for (std::int64_t i = stretch->begin; kept != nullptr && i < stretch->end; ++i)
      places.push_back(row * length_ + i);
  }
  lengths_ = std::move(lengths);
  first_sequences_ = std::move(first_sequences);
  if (!options.device.is_cpu()) bounds_ = bounds_of(lengths_, options.device);
  firsts_ = to_tensor(firsts).to(options.device);
  if (kept != nullptr) places_ = to_tensor(places).to(options.device);
  return true;
}

at::Tensor Tokens::take(const at::Tensor& values) const {
  if (!is_packed() || !values.defined()) return values;
  const at::Tensor all = values.flatten(0, 1);
  return places_.defined() ? all.index_select(0, places_) : all;
}

at::Tensor Tokens::restore(const at::Tensor& values) const {
  if (!is_packed() || !values.defined()) return values;
  if (!places_.defined()) return values.unflatten(0, {rows_, length_});
  std::vector<std::int64_t> shape = values.sizes().vec();
  shape.front() = rows_ * length_;
  const at::Tensor restored = at::zeros(shape, values.options()).index_copy(0, places_, values);
  return restored.unflatten(0, {rows_, length_});
}

at::Tensor Tokens::first(const at::Tensor& values) const {
  return is_packed() ? values.index_select(0, firsts_) : values.select(1, 0);
}

}  // namespace accelerate::detail
