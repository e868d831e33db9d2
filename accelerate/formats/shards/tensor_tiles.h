// Tiles of a tensor: the boxes into which it was cut, and whether they make it up again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/formats/safetensors/tensor_slice.h"

namespace accelerate {

/// A box of a tensor: it begins at `offsets` and has the shape `sizes`, one of each a dimension;
/// both are empty for the one element of a scalar.
struct TensorTile {
  std::vector<std::int64_t> offsets;
  std::vector<std::int64_t> sizes;

  /// Whether it has no elements.
  [[nodiscard]] bool empty() const;
  /// offsets[d] + sizes[d] of each dimension.
  [[nodiscard]] std::vector<std::int64_t> ends() const;
  [[nodiscard]] std::vector<IndexRange> ranges() const;

  bool operator==(const TensorTile&) const = default;
};

/// The tile that is all of a tensor.
[[nodiscard]] TensorTile whole_tile(std::vector<std::int64_t> shape);

/// The tiles that the elements begin, …, end - 1 of a row-major tensor make up: at most two a
/// dimension, in their order. So a shard of flat memory, cut without regard to rows, becomes tiles.
/// Throws UsageError when the range leaves the tensor.
[[nodiscard]] std::vector<TensorTile> tiles_of_range(std::span<const std::int64_t> shape,
                                                     std::int64_t begin, std::int64_t end);

/// "[0:4, 8:16]".
[[nodiscard]] std::string describe_ranges(std::span<const IndexRange> ranges);

/// Two of `tiles` that have an element in common; nullopt when there are none. All have the same
/// number of dimensions, and ends that do not overflow. Cost: n log n for tiles that are rows, for
/// others n times how many of them share a row.
[[nodiscard]] std::optional<std::pair<std::size_t, std::size_t>> overlapping_tiles(
    std::span<const TensorTile> tiles);

/// A box of `shape` that none of `tiles` covers; nullopt when they cover it all. `tiles` lie inside
/// and do not overlap, and the number of elements fits 64 bits. Cost: one pass when there is no
/// hole.
[[nodiscard]] std::optional<std::vector<IndexRange>> uncovered_box(
    std::span<const std::int64_t> shape, std::span<const TensorTile> tiles);

}  // namespace accelerate
