#include "accelerate/transformers/models/layers/sequences.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <sstream>
#include <string>

#include "accelerate/base/error.h"
#include "accelerate/tensor/compat/interception.h"

namespace accelerate::detail {
namespace {

at::Tensor rows_on_cpu(const at::Tensor& values, std::int64_t rows, std::int64_t length) {
  return values.detach().to(at::kCPU, at::kLong).expand({rows, length}).contiguous();
}

void check_positions_shape(const at::Tensor& position_ids, std::int64_t rows, std::int64_t length) {
  const auto sizes = position_ids.sizes();
  const bool fits = !sizes.empty() && sizes.size() <= 2 && sizes.back() == length &&
                    (sizes.size() == 1 || sizes[0] == 1 || sizes[0] == rows);
  if (fits) return;
  std::ostringstream found;
  found << sizes;
  throw UsageError("position_ids have the shape " + found.str() + "; allowed are [1, " +
                   std::to_string(length) + "] and [" + std::to_string(rows) + ", " +
                   std::to_string(length) + "]");
}

std::vector<std::int64_t> begins_of_row(const std::vector<std::int64_t>& positions,
                                        SequenceRule rule) {
  std::vector<std::int64_t> begins;
  std::int64_t last = kNoPosition;
  bool is_neighbour = false;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const std::int64_t position = positions[i];
    if (position != kNoPosition) {
      const bool goes_on =
          is_neighbour && rule == SequenceRule::jumps ? position == last + 1 : position > last;
      if (last != kNoPosition && !goes_on) begins.push_back(static_cast<std::int64_t>(i));
      last = position;
    }
    is_neighbour = position != kNoPosition;
  }
  return begins;
}

}  // namespace

void append_positions(RowPositions& rows, std::int64_t length, const at::Tensor& position_ids,
                      const at::Tensor& counts) {
  const auto count = static_cast<std::int64_t>(rows.size());
  if (!position_ids.defined()) {
    for (auto& row : rows) row.insert(row.end(), static_cast<std::size_t>(length), kNoPosition);
    return;
  }
  check_positions_shape(position_ids, count, length);
  at::Tensor positions = rows_on_cpu(position_ids, count, length);
  if (counts.defined())
    positions = positions.masked_fill(rows_on_cpu(counts.ne(0), count, length).eq(0), kNoPosition);
  const auto* begin = positions.const_data_ptr<std::int64_t>();
  for (auto& row : rows) {
    row.insert(row.end(), begin, begin + length);
    begin += length;
  }
}

SequenceBegins sequences_in(const RowPositions& positions, SequenceRule rule) {
  SequenceBegins begins;
  for (const auto& row : positions) begins.push_back(begins_of_row(row, rule));
  const bool any = std::ranges::any_of(begins, [](const auto& row) { return !row.empty(); });
  return any ? begins : SequenceBegins();
}

at::Tensor same_sequence(const SequenceBegins& begins, std::int64_t length, std::int64_t keys) {
  const compat::WithoutInterception unseen;  // It writes without an operator.
  const auto rows = static_cast<std::int64_t>(begins.size());
  at::Tensor numbers = at::empty({rows, keys}, at::TensorOptions(at::kLong).device(at::kCPU));
  auto* number = numbers.mutable_data_ptr<std::int64_t>();
  for (const auto& row : begins) {
    std::size_t sequence = 0;
    for (std::int64_t key = 0; key < keys; ++key) {
      if (sequence < row.size() && row[sequence] == key) ++sequence;
      *number++ = static_cast<std::int64_t>(sequence);
    }
  }
  const at::Tensor asking = numbers.narrow(1, keys - length, length);
  return asking.unsqueeze(2).eq(numbers.unsqueeze(1)).unsqueeze(1);
}

}  // namespace accelerate::detail
