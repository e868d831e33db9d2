// Tiles of a tensor: the boxes into which it was cut, and whether they cover it completely.
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

/// A box of a tensor: it begins at `offsets` and has the shape `sizes`, with one number a
/// dimension. Both are empty for a scalar.
struct TensorTile {
  std::vector<std::int64_t> offsets;
  std::vector<std::int64_t> sizes;

  /// Whether the tile has no elements.
  [[nodiscard]] bool empty() const;
  /// Returns offsets[d] + sizes[d] for each dimension.
  [[nodiscard]] std::vector<std::int64_t> ends() const;
  [[nodiscard]] std::vector<IndexRange> ranges() const;

  bool operator==(const TensorTile&) const = default;
};

/// Returns the tile that covers a whole tensor.
[[nodiscard]] TensorTile whole_tile(std::vector<std::int64_t> shape);

/// Returns the tiles that the elements begin, …, end - 1 of a row-major tensor make up, in their
/// order: at most two a dimension. So a shard of flat memory that was cut without regard to rows
/// becomes tiles. Throws UsageError when the range leaves the tensor.
[[nodiscard]] std::vector<TensorTile> tiles_of_range(std::span<const std::int64_t> shape,
                                                     std::int64_t begin, std::int64_t end);

/// "[0:4, 8:16]".
[[nodiscard]] std::string describe_ranges(std::span<const IndexRange> ranges);

/// Returns the indices of two `tiles` that have an element in common; nullopt if there are none.
/// All tiles must have the same number of dimensions, and ends that do not overflow. Cost: n log n
/// for n tiles that are rows; otherwise n times the number of tiles that share a row.
[[nodiscard]] std::optional<std::pair<std::size_t, std::size_t>> overlapping_tiles(
    std::span<const TensorTile> tiles);

/// Returns a box of `shape` that none of `tiles` covers; nullopt if they cover it all. The tiles
/// must lie inside and not overlap, and the number of elements must fit 64 bits. Cost: one pass if
/// there is no hole.
[[nodiscard]] std::optional<std::vector<IndexRange>> uncovered_box(
    std::span<const std::int64_t> shape, std::span<const TensorTile> tiles);

}  // namespace accelerate
