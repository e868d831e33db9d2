// The rows that Python `datasets` puts into the parts of a split.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace accelerate::detail {

struct SplitRows {
  std::vector<std::uint64_t> train, test;
};

struct SplitSizes {
  std::size_t train, test;
};

/// The sizes of the parts: shares below 1, or counts. Throws UsageError for sizes out of range,
/// that are together more than all, or that leave a part empty.
[[nodiscard]] SplitSizes split_sizes(std::size_t rows, std::optional<double> train,
                                     std::optional<double> test);
[[nodiscard]] SplitRows split_in_order(const SplitSizes& sizes);
[[nodiscard]] SplitRows split_at_random(std::size_t rows, const SplitSizes& sizes,
                                        std::uint64_t seed);
/// `classes`: one number a row. Throws UsageError for a class with a single row, and for parts of
/// fewer rows than there are classes. Source: datasets/utils/stratify.py.
[[nodiscard]] SplitRows split_by_class(std::span<const std::int64_t> classes,
                                       const SplitSizes& sizes, std::uint64_t seed);

}  // namespace accelerate::detail
