#include "accelerate/formats/shards/tensor_tiles.h"

#include <gtest/gtest.h>

#include <random>

#include "accelerate/base/error.h"

namespace accelerate {
namespace {

using Tiles = std::vector<TensorTile>;

std::string hole_in(std::vector<std::int64_t> shape, const Tiles& tiles) {
  const auto hole = uncovered_box(shape, tiles);
  return hole ? describe_ranges(*hole) : "";
}

TEST(TensorTiles, ThatMakeUpATensorNeitherOverlapNorLeaveAHole) {
  struct {
    std::vector<std::int64_t> shape;
    Tiles tiles;
  } const cases[] = {
      {{4, 3}, {{{0, 0}, {2, 3}}, {{2, 0}, {2, 3}}}},
      {{4, 3}, {{{2, 0}, {2, 3}}, {{0, 0}, {2, 1}}, {{0, 1}, {2, 2}}}},
      {{4, 3}, {{{0, 0}, {4, 3}}, {{4, 0}, {0, 3}}, {{0, 0}, {0, 3}}}},
      {{}, {{{}, {}}}},
      {{0, 3}, {}},
      {{0, 3}, {{{0, 0}, {0, 3}}, {{0, 0}, {0, 3}}}},
      {{2, 2, 2}, {{{0, 0, 0}, {2, 2, 1}}, {{0, 0, 1}, {1, 2, 1}}, {{1, 0, 1}, {1, 2, 1}}}},
  };
  for (const auto& row : cases) {
    EXPECT_EQ(overlapping_tiles(row.tiles), std::nullopt);
    EXPECT_EQ(hole_in(row.shape, row.tiles), "");
  }
}

TEST(TensorTiles, NamesTheHole) {
  EXPECT_EQ(hole_in({4, 3}, {{{0, 0}, {2, 3}}}), "[2:4, 0:3]");
  EXPECT_EQ(hole_in({4, 3}, {{{2, 0}, {2, 3}}}), "[0:2, 0:3]");
  EXPECT_EQ(hole_in({4, 3}, {{{0, 0}, {2, 3}}, {{2, 0}, {2, 1}}, {{2, 2}, {2, 1}}}), "[2:4, 1:2]");
  EXPECT_EQ(hole_in({}, {}), "[]");
  EXPECT_EQ(hole_in({3}, {}), "[0:3]");
}

TEST(TensorTiles, NamesTheFirstTwoThatOverlap) {
  using Pair = std::pair<std::size_t, std::size_t>;
  EXPECT_EQ(overlapping_tiles(Tiles{{{0, 0}, {2, 3}}, {{2, 0}, {2, 3}}, {{1, 2}, {1, 1}}}),
            (Pair{0, 2}));
  EXPECT_EQ(overlapping_tiles(Tiles{{{}, {}}, {{}, {}}}), (Pair{0, 1}));
  EXPECT_EQ(overlapping_tiles(Tiles{{{0}, {3}}, {{1}, {0}}, {{2}, {2}}}), (Pair{0, 2}));
}

// Random tilings by cutting boxes in two; then one tile is lost, or grown by one.
TEST(TensorTiles, EveryLostOrGrownTileOfRandomTilingsIsNoticed) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    Tiles tiles = {whole_tile({5, 4, 6})};
    for (int cut = 0; cut < 12; ++cut) {
      TensorTile& tile = tiles[random() % tiles.size()];
      const std::size_t d = random() % 3;
      if (tile.sizes[d] < 2) continue;
      TensorTile upper = tile;
      tile.sizes[d] = 1 + static_cast<std::int64_t>(random()) % (tile.sizes[d] - 1);
      upper.offsets[d] += tile.sizes[d];
      upper.sizes[d] -= tile.sizes[d];
      tiles.push_back(upper);
    }
    ASSERT_EQ(overlapping_tiles(tiles), std::nullopt);
    ASSERT_EQ(hole_in({5, 4, 6}, tiles), "");
    const std::size_t victim = random() % tiles.size();
    Tiles lost = tiles;
    lost.erase(lost.begin() + static_cast<std::ptrdiff_t>(victim));
    ASSERT_NE(hole_in({5, 4, 6}, lost), "");
    for (std::size_t d = 0; d < 3; ++d) {
      if (tiles[victim].offsets[d] == 0) continue;
      Tiles grown = tiles;
      --grown[victim].offsets[d];
      ++grown[victim].sizes[d];
      ASSERT_NE(overlapping_tiles(grown), std::nullopt);
    }
  }
}

TEST(TensorTiles, MakeUpAnyRangeOfElementsInTheirOrder) {
  for (const std::vector<std::int64_t>& shape : std::vector<std::vector<std::int64_t>>{
           {}, {7}, {3, 4}, {1, 5, 1}, {2, 3, 4}, {3, 1, 2, 2}, {0, 4}}) {
    TensorSpec spec{"", DType::u8, shape};
    const auto count = static_cast<std::int64_t>(bytes_of(DType::u8, shape).value());
    for (std::int64_t begin = 0; begin <= count; ++begin) {
      for (std::int64_t end = begin; end <= count; ++end) {
        const auto tiles = tiles_of_range(shape, begin, end);
        EXPECT_LE(tiles.size(), std::max<std::size_t>(1, 2 * shape.size()));
        std::int64_t next = begin;
        for (const TensorTile& tile : tiles) {
          for (const ByteRun& run : SliceRuns(spec, tile.ranges()).list()) {
            ASSERT_EQ(run.offset_bytes, static_cast<std::uint64_t>(next));
            next += static_cast<std::int64_t>(run.size_bytes);
          }
        }
        ASSERT_EQ(next, end);
      }
    }
    EXPECT_THROW((void)tiles_of_range(shape, 0, count + 1), UsageError);
    EXPECT_THROW((void)tiles_of_range(shape, -1, 0), UsageError);
  }
}

}  // namespace
}  // namespace accelerate
