// Sharding information is refused with a CheckpointError, or is read back from the text written of
// it; and what it says of boxes is judged as by counting every element.
#include "accelerate/formats/shards/sharding_info.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/formats/shards/tensor_tiles.h"

namespace {

using namespace accelerate;

constexpr std::int64_t kSide = 6;

bool small(const std::vector<std::int64_t>& list) {
  return std::ranges::all_of(list, [](std::int64_t value) { return value <= kSide; });
}

// How often each element of a cube of 6 is covered.
std::vector<int> counted(std::size_t dimensions, const std::vector<TensorTile>& tiles) {
  std::size_t elements = 1;
  for (std::size_t d = 0; d < dimensions; ++d) elements *= kSide;
  std::vector<int> counts(elements);
  for (const TensorTile& tile : tiles) {
    for (std::size_t i = 0; i < elements; ++i) {
      std::size_t rest = i;
      bool inside = true;
      for (std::size_t d = dimensions; d-- > 0; rest /= kSide) {
        const auto index = static_cast<std::int64_t>(rest % kSide);
        inside = inside && tile.offsets[d] <= index && index < tile.offsets[d] + tile.sizes[d];
      }
      counts[i] += inside ? 1 : 0;
    }
  }
  return counts;
}

// Takes the offsets and shapes of all small tensors of as many dimensions for tiles of one cube.
void check_tiles(const ShardingInfo& info, std::size_t dimensions) {
  std::vector<TensorTile> tiles;
  for (const auto& [name, offsets] : info.offsets) {
    const auto sizes = info.global_shapes.find(name);
    if (sizes == info.global_shapes.end() || offsets.size() != dimensions) continue;
    TensorTile tile{offsets, sizes->second};
    if (tile.sizes.size() == dimensions && small(tile.offsets) && small(tile.sizes) &&
        small(tile.ends()) && tiles.size() < 64)
      tiles.push_back(std::move(tile));
  }
  const auto counts = counted(dimensions, tiles);
  const bool twice = std::ranges::any_of(counts, [](int count) { return count > 1; });
  if (overlapping_tiles(tiles).has_value() != twice) std::abort();
  if (twice) return;
  const std::vector<std::int64_t> shape(dimensions, kSide);
  const bool hole = std::ranges::find(counts, 0) != counts.end();
  const auto found = uncovered_box(shape, tiles);
  if (found.has_value() != hole) std::abort();
  if (!hole) return;
  TensorTile box;
  for (const IndexRange& range : *found) {
    box.offsets.push_back(range.begin);
    box.sizes.push_back(range.end - range.begin);
  }
  const auto of_hole = counted(dimensions, {box});
  if (std::ranges::find(of_hole, 1) == of_hole.end()) std::abort();
  for (std::size_t i = 0; i < counts.size(); ++i)
    if (of_hole[i] != 0 && counts[i] != 0) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const auto info =
        sharding_info_of({{"DCP_SHARDING_INFO", text}, {"ACCELERATE_SHARDING_INFO", text}});
    const auto again = sharding_info_of(sharding_metadata(*info));
    if (again->offsets != info->offsets || again->global_shapes != info->global_shapes)
      std::abort();
    for (std::size_t dimensions = 0; dimensions < 4; ++dimensions) check_tiles(*info, dimensions);
  } catch (const CheckpointError&) {
  }
  return 0;
}
