#include "accelerate/comm/shared_memory/free_extents.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <random>
#include <vector>

namespace accelerate::detail {
namespace {

using Extent = FreeExtents::Extent;

TEST(FreeExtents, TakesFromTheSmallestExtentThatHasRoom) {
  FreeExtents free;
  free.give({0, 300, 0});
  free.give({1000, 100, 1000});
  free.give({2000, 200, 2000});
  EXPECT_EQ(free.take(150, 1), (Extent{2000, 150, 2000}));
  EXPECT_EQ(free.take(100, 1), (Extent{1000, 100, 1000}));
  EXPECT_EQ(free.bytes(), 350U);
}

TEST(FreeExtents, SkipsExtentsThatAreTooSmallOnceTheStartIsAligned) {
  FreeExtents free;
  free.give({4000, 4100, 0});
  free.give({16000, 9000, 16000});
  EXPECT_EQ(free.take(4096, 4096), (Extent{16384, 4096, 16000}));
}

TEST(FreeExtents, KeepWhatLiesBeforeAnAlignedStart) {
  FreeExtents free;
  free.give({64, 8192, 0});
  EXPECT_EQ(free.take(4096, 4096), (Extent{4096, 4096, 0}));
  EXPECT_EQ(free.take(4032, 64), (Extent{64, 4032, 0}));
}

TEST(FreeExtents, AreNothingWhereNothingFits) {
  FreeExtents free;
  EXPECT_FALSE(free.take(1, 1).has_value());
  free.give({0, 10, 0});
  EXPECT_FALSE(free.take(11, 1).has_value());
}

TEST(FreeExtents, JoinBothNeighboursButNeverAcrossSegments) {
  FreeExtents free;
  free.give({0, 100, 0});
  free.give({200, 56, 0});
  free.give({256, 100, 256});
  EXPECT_EQ(free.give({100, 100, 0}), (Extent{0, 256, 0}));
  EXPECT_EQ(free.all().size(), 2U);
}

// Three segments of 256 units, taken and given at random, beside a map of every unit.
class FreeExtentsModel {
 public:
  explicit FreeExtentsModel(unsigned seed) : random_(seed) {
    for (std::uint64_t segment = 0; segment < 3 * kUnits; segment += kUnits) {
      free_.give({segment, kUnits, segment});
    }
  }

  void step() {
    if (taken_.empty() || random_() % 2 == 0) {
      take(1 + random_() % 60, std::uint64_t{1} << random_() % 6);
    } else {
      give(random_() % taken_.size());
    }
  }

  void check() const {
    std::vector<bool> seen(3 * kUnits, false);
    for (const auto& [offset, extent] : free_.all()) {
      ASSERT_EQ(extent.segment, offset / kUnits * kUnits);
      ASSERT_LE(offset + extent.bytes, extent.segment + kUnits);
      const bool touches_the_one_before = offset % kUnits != 0 && seen[offset - 1];
      ASSERT_FALSE(touches_the_one_before);
      std::fill_n(seen.begin() + static_cast<std::ptrdiff_t>(offset), extent.bytes, true);
    }
    ASSERT_EQ(seen, is_free_);
    ASSERT_EQ(free_.bytes(), static_cast<std::uint64_t>(std::ranges::count(is_free_, true)));
  }

 private:
  static constexpr std::uint64_t kUnits = 256;

  // Length of the smallest run of free units that has room; 0 when none has.
  [[nodiscard]] std::uint64_t smallest_fit(std::uint64_t bytes, std::uint64_t alignment) const {
    std::uint64_t best = 0;
    for (const auto& [offset, extent] : free_.all()) {
      const std::uint64_t start = (offset + alignment - 1) / alignment * alignment;
      const bool fits = start + bytes <= offset + extent.bytes;
      if (fits && (best == 0 || extent.bytes < best)) best = extent.bytes;
    }
    return best;
  }

  void take(std::uint64_t bytes, std::uint64_t alignment) {
    const std::uint64_t expected = smallest_fit(bytes, alignment);
    const auto before = free_.all();
    const auto taken = free_.take(bytes, alignment);
    ASSERT_EQ(taken.has_value(), expected != 0);
    if (!taken) return;
    ASSERT_EQ(taken->offset % alignment, 0U);
    ASSERT_EQ(std::prev(before.upper_bound(taken->offset))->second.bytes, expected);
    mark(*taken, false);
    taken_.push_back(*taken);
  }

  void give(std::size_t which) {
    free_.give(taken_[which]);
    mark(taken_[which], true);
    taken_.erase(taken_.begin() + static_cast<std::ptrdiff_t>(which));
  }

  void mark(const Extent& extent, bool free) {
    for (std::uint64_t unit = extent.offset; unit < extent.offset + extent.bytes; ++unit) {
      ASSERT_NE(is_free_[unit], free);
      is_free_[unit] = free;
    }
  }

  std::mt19937 random_;
  FreeExtents free_;
  std::vector<bool> is_free_ = std::vector<bool>(3 * kUnits, true);
  std::vector<Extent> taken_;
};

TEST(FreeExtents, AgreeWithAMapOfEveryUnitUnderRandomUse) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    FreeExtentsModel model(seed);
    for (int step = 0; step < 500; ++step) {
      model.step();
      model.check();
      if (::testing::Test::HasFatalFailure()) FAIL() << "seed " << seed << ", step " << step;
    }
  }
}

}  // namespace
}  // namespace accelerate::detail
