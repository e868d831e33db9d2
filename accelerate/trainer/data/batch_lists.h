// Batches of one epoch that follow from the lengths of samples.
#pragma once

#include <cstdint>
#include <vector>

#include "accelerate/data/loader_options.h"

namespace accelerate::detail {

/// An order in which neighbours are about as long, and which is random otherwise: samples are
/// shuffled, cut into stretches of up to 50 batches, and each stretch is sorted from long to short.
/// The longest sample comes first, so that memory that does not suffice is found at once.
/// `seed`: of LibTorch's generator. Source: `get_length_grouped_indices` of Transformers.
[[nodiscard]] Indices length_grouped(const std::vector<std::int64_t>& lengths,
                                     std::int64_t batch_size, std::uint64_t seed);

/// `order` cut into batches of `batch_size`; with `drop_last` without a smaller last one.
[[nodiscard]] BatchList cut_by_count(const Indices& order, std::int64_t batch_size, bool drop_last);

/// `order` cut into batches that hold at most `max_tokens` when each sample is padded to the
/// longest of its batch. A longer sample is a batch of its own.
[[nodiscard]] BatchList cut_by_tokens(const Indices& order,
                                      const std::vector<std::int64_t>& lengths,
                                      std::int64_t max_tokens);

/// 0 to `count` - 1 in random order, or in theirs.
[[nodiscard]] Indices random_order(std::size_t count, std::uint64_t seed);
[[nodiscard]] Indices given_order(std::size_t count);

}  // namespace accelerate::detail
