// Cuts the samples of one epoch into batches, by number or by length.
#pragma once

#include <cstdint>
#include <vector>

#include "accelerate/data/loader_options.h"

namespace accelerate::detail {

/// Returns a random order in which neighbours have about the same length. Samples are shuffled and
/// cut into stretches of up to 50 batches; each stretch is sorted from long to short. The longest
/// sample comes first, so that a lack of memory shows immediately. `seed`: for LibTorch's
/// generator. Source: `get_length_grouped_indices` of Transformers.
[[nodiscard]] Indices length_grouped(const std::vector<std::int64_t>& lengths,
                                     std::int64_t batch_size, std::uint64_t seed);

/// Cuts `order` into batches of `batch_size`. With `drop_last` a smaller last batch is left out.
[[nodiscard]] BatchList cut_by_count(const Indices& order, std::int64_t batch_size, bool drop_last);

/// Cuts `order` into batches that hold at most `max_tokens` tokens when each sample is padded to
/// the longest of its batch. A sample that is longer than that is a batch alone.
[[nodiscard]] BatchList cut_by_tokens(const Indices& order,
                                      const std::vector<std::int64_t>& lengths,
                                      std::int64_t max_tokens);

/// Returns 0 to `count` - 1: in random order, or ascending.
[[nodiscard]] Indices random_order(std::size_t count, std::uint64_t seed);
[[nodiscard]] Indices given_order(std::size_t count);

}  // namespace accelerate::detail
