#include "accelerate/transformers/trainer/data/batch_lists.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randperm.h>

#include <algorithm>
#include <numeric>

namespace accelerate::detail {

Indices given_order(std::size_t count) {
  Indices order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
}

Indices random_order(std::size_t count, std::uint64_t seed) {
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const at::Tensor permutation =
      at::randperm(static_cast<std::int64_t>(count), generator, at::TensorOptions(at::kLong));
  const auto* first = permutation.const_data_ptr<std::int64_t>();
  return {first, first + count};
}

Indices length_grouped(const std::vector<std::int64_t>& lengths, std::int64_t batch_size,
                       std::uint64_t seed) {
  Indices order = random_order(lengths.size(), seed);
  const auto count = static_cast<std::int64_t>(order.size());
  const std::int64_t batches = std::clamp<std::int64_t>(count / (batch_size * 4), 1, 50);
  const auto stretch = static_cast<std::size_t>(batches * batch_size);
  std::size_t longest = 0;  // Where the longest sample is: it comes first in its stretch.
  for (std::size_t begin = 0; begin < order.size(); begin += stretch) {
    const auto first = order.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last =
        order.begin() + static_cast<std::ptrdiff_t>(std::min(begin + stretch, order.size()));
    std::stable_sort(first, last,
                     [&](std::size_t a, std::size_t b) { return lengths[a] > lengths[b]; });
    if (lengths[order[begin]] > lengths[order[longest]]) longest = begin;
  }
  if (!order.empty()) std::swap(order.front(), order[longest]);
  return order;
}

BatchList cut_by_count(const Indices& order, std::int64_t batch_size, bool drop_last) {
  BatchList batches;
  const auto size = static_cast<std::size_t>(batch_size);
  for (std::size_t begin = 0; begin < order.size(); begin += size) {
    const std::size_t end = std::min(begin + size, order.size());
    if (end - begin < size && drop_last) break;
    batches.emplace_back(order.begin() + static_cast<std::ptrdiff_t>(begin),
                         order.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return batches;
}

BatchList cut_by_tokens(const Indices& order, const std::vector<std::int64_t>& lengths,
                        std::int64_t max_tokens) {
  BatchList batches;
  std::int64_t longest = 0;
  for (const std::size_t sample : order) {
    const std::int64_t with = std::max(longest, lengths[sample]);
    const bool fits = !batches.empty() &&
                      with * static_cast<std::int64_t>(batches.back().size() + 1) <= max_tokens;
    if (fits) {
      batches.back().push_back(sample);
      longest = with;
    } else {
      batches.push_back({sample});
      longest = lengths[sample];
    }
  }
  return batches;
}

}  // namespace accelerate::detail
