// Chooses the rows of the parts of a split as Python `datasets` does.
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

/// Returns the sizes of the parts. `train` and `test` are shares below 1, or numbers of rows.
/// Throws UsageError for sizes that are out of range, exceed `rows` together, or leave a part
/// empty.
[[nodiscard]] SplitSizes split_sizes(std::size_t rows, std::optional<double> train,
                                     std::optional<double> test);
[[nodiscard]] SplitRows split_in_order(const SplitSizes& sizes);
[[nodiscard]] SplitRows split_at_random(std::size_t rows, const SplitSizes& sizes,
                                        std::uint64_t seed);
/// Gives each class the same share in both parts. `classes`: one number a row. Throws UsageError
/// for a class with a single row, and for parts with fewer rows than there are classes. Source:
/// datasets/utils/stratify.py.
[[nodiscard]] SplitRows split_by_class(std::span<const std::int64_t> classes,
                                       const SplitSizes& sizes, std::uint64_t seed);

}  // namespace accelerate::detail
