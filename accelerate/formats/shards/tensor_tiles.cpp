#include "accelerate/formats/shards/tensor_tiles.h"

#include <algorithm>
#include <functional>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"

namespace accelerate {
namespace {

std::uint64_t volume(std::span<const std::int64_t> sizes) {
  std::uint64_t elements = 1;
  for (const std::int64_t size : sizes) elements *= static_cast<std::uint64_t>(size);
  return elements;
}

bool overlap(const TensorTile& a, const TensorTile& b) {
  for (std::size_t d = 0; d < a.sizes.size(); ++d) {
    if (a.offsets[d] >= b.offsets[d] + b.sizes[d] || b.offsets[d] >= a.offsets[d] + a.sizes[d])
      return false;
  }
  return true;
}

using Tiles = std::vector<const TensorTile*>;

Tiles covering(const Tiles& tiles, std::size_t d, std::int64_t index) {
  Tiles found;
  for (const TensorTile* tile : tiles) {
    if (tile->offsets[d] <= index && index < tile->offsets[d] + tile->sizes[d])
      found.push_back(tile);
  }
  return found;
}

// Returns the positions along dimension `d` where tiles begin or end, and both ends of the
// dimension.
std::vector<std::int64_t> cuts_of(const Tiles& tiles, std::size_t d, std::int64_t size) {
  std::vector<std::int64_t> cuts = {0, size};
  for (const TensorTile* tile : tiles) {
    cuts.push_back(tile->offsets[d]);
    cuts.push_back(tile->offsets[d] + tile->sizes[d]);
  }
  std::ranges::sort(cuts);
  cuts.erase(std::ranges::unique(cuts).begin(), cuts.end());
  return cuts;
}

// Returns the number of elements that the tiles have in the dimensions from `d` on.
std::uint64_t covered(const Tiles& tiles, std::size_t d) {
  std::uint64_t sum = 0;
  for (const TensorTile* tile : tiles) sum += volume(std::span(tile->sizes).subspan(d));
  return sum;
}

// Finds a hole in a tensor that is known to have one, dimension by dimension.
std::vector<IndexRange> find_hole(std::span<const std::int64_t> shape, Tiles tiles) {
  std::vector<IndexRange> hole;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const auto cuts = cuts_of(tiles, d, shape[d]);
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      Tiles inside = covering(tiles, d, cuts[i]);
      if (covered(inside, d + 1) == volume(shape.subspan(d + 1))) continue;
      hole.push_back({cuts[i], cuts[i + 1]});
      tiles = std::move(inside);
      break;
    }
  }
  return hole;
}

// Cuts a range of elements at the rows of dimension `d`: the rest of the first row, whole rows, and
// the beginning of the last row.
class RangeCutter {
 public:
  explicit RangeCutter(std::span<const std::int64_t> shape) : shape_(shape), at_(shape.size(), 0) {}

  void cut(std::size_t d, std::int64_t begin, std::int64_t end) {
    if (begin == end) return;
    if (d == shape_.size()) return add(d, 0, 0);
    const auto row = static_cast<std::int64_t>(volume(shape_.subspan(d + 1)));
    if (begin % row != 0 || end - begin < row) {
      const std::int64_t stop = std::min(end, (begin / row + 1) * row);
      inside_row(d, begin, stop, row);
      begin = stop;
    }
    if (const std::int64_t rows = (end - begin) / row; rows > 0) {
      add(d, begin / row, rows);
      begin += rows * row;
    }
    if (begin < end) inside_row(d, begin, end, row);
  }

  std::vector<TensorTile> take() { return std::move(tiles_); }

 private:
  void inside_row(std::size_t d, std::int64_t begin, std::int64_t end, std::int64_t row) {
    at_[d] = begin / row;
    cut(d + 1, begin - at_[d] * row, end - at_[d] * row);
  }

  // Adds `rows` rows of dimension `d`, from `first` on. at_ holds the position in the dimensions
  // before `d`.
  void add(std::size_t d, std::int64_t first, std::int64_t rows) {
    TensorTile tile = whole_tile({shape_.begin(), shape_.end()});
    for (std::size_t i = 0; i < d; ++i) {
      tile.offsets[i] = at_[i];
      tile.sizes[i] = 1;
    }
    if (d < shape_.size()) {
      tile.offsets[d] = first;
      tile.sizes[d] = rows;
    }
    tiles_.push_back(std::move(tile));
  }

  std::span<const std::int64_t> shape_;
  std::vector<std::int64_t> at_;
  std::vector<TensorTile> tiles_;
};

}  // namespace

bool TensorTile::empty() const {
  return std::ranges::find(sizes, 0) != sizes.end();
}

std::vector<std::int64_t> TensorTile::ends() const {
  std::vector<std::int64_t> all = offsets;
  std::ranges::transform(all, sizes, all.begin(), std::plus());
  return all;
}

std::vector<IndexRange> TensorTile::ranges() const {
  std::vector<IndexRange> all;
  for (std::size_t d = 0; d < sizes.size(); ++d) all.push_back({offsets[d], offsets[d] + sizes[d]});
  return all;
}

TensorTile whole_tile(std::vector<std::int64_t> shape) {
  return {std::vector<std::int64_t>(shape.size(), 0), std::move(shape)};
}

std::vector<TensorTile> tiles_of_range(std::span<const std::int64_t> shape, std::int64_t begin,
                                       std::int64_t end) {
  const auto elements = static_cast<std::int64_t>(volume(shape));
  if (begin < 0 || end < begin || end > elements)
    throw UsageError("the elements " + std::to_string(begin) + ":" + std::to_string(end) +
                     " are not within a tensor of " + std::to_string(elements));
  RangeCutter cutter(shape);
  cutter.cut(0, begin, end);
  return cutter.take();
}

std::string describe_ranges(std::span<const IndexRange> ranges) {
  std::vector<std::string> parts;
  for (const IndexRange& range : ranges)
    parts.push_back(std::to_string(range.begin) + ":" + std::to_string(range.end));
  return "[" + join(parts, ", ") + "]";
}

std::optional<std::pair<std::size_t, std::size_t>> overlapping_tiles(
    std::span<const TensorTile> tiles) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < tiles.size(); ++i)
    if (!tiles[i].empty()) order.push_back(i);
  const auto begin = [&](std::size_t i) {
    return tiles[i].offsets.empty() ? 0 : tiles[i].offsets[0];
  };
  std::ranges::sort(order, {}, [&](std::size_t i) { return std::pair(begin(i), i); });
  std::vector<std::size_t> open;  // Tiles that reach into the rows of the current tile.
  for (const std::size_t i : order) {
    std::erase_if(open, [&](std::size_t other) {
      return !tiles[other].offsets.empty() && tiles[other].ends()[0] <= begin(i);
    });
    for (const std::size_t other : open)
      if (overlap(tiles[i], tiles[other])) return std::pair(std::min(i, other), std::max(i, other));
    open.push_back(i);
  }
  return std::nullopt;
}

std::optional<std::vector<IndexRange>> uncovered_box(std::span<const std::int64_t> shape,
                                                     std::span<const TensorTile> tiles) {
  Tiles all;
  for (const TensorTile& tile : tiles)
    if (!tile.empty()) all.push_back(&tile);
  if (covered(all, 0) == volume(shape)) return std::nullopt;
  return find_hole(shape, std::move(all));
}

}  // namespace accelerate
