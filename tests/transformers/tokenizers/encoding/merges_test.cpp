#include "accelerate/transformers/tokenizers/models/merges.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "accelerate/transformers/tokenizers/models/waiting_places.h"

namespace accelerate::detail {
namespace {

using Symbols = std::vector<Symbol>;
using Pairs = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

Pairs pairs_of(const Symbols& symbols) {
  Pairs pairs;
  for (const Symbol& symbol : symbols) pairs.emplace_back(symbol.id, symbol.bytes);
  return pairs;
}

// Looks through the whole word before each merge.
Symbols merged_plainly(const Merges& merges, Symbols symbols) {
  for (;;) {
    std::size_t best = 0;
    Merge lowest;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const Merge merge = merges.find(symbols[i].id, symbols[i + 1].id);
      if (merge.rank >= lowest.rank) continue;
      lowest = merge;
      best = i;
    }
    if (lowest.rank == kNoId) return symbols;
    symbols[best] = {lowest.id, symbols[best].bytes + symbols[best + 1].bytes};
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

// A place that counts how often places are compared.
struct CountedPlace {
  std::size_t place = 0;
  static inline std::size_t comparisons = 0;

  friend bool operator<(const CountedPlace& a, const CountedPlace& b) {
    ++comparisons;
    return a.place < b.place;
  }
  friend bool operator>(const CountedPlace& a, const CountedPlace& b) { return b < a; }
};

TEST(Merges, AnyTableAndWordGiveWhatLookingThroughTheWholeWordGives) {
  std::mt19937 random(41);
  const auto below = [&](std::uint32_t end) { return static_cast<std::uint32_t>(random() % end); };
  for (int round = 0; round < 300; ++round) {
    // Few tokens, so that merges make tokens of lower ranks, of the same rank, and their own parts.
    const std::uint32_t tokens = 2 + below(8), ranks = 1 + below(12);
    Merges merges;
    for (std::uint32_t i = below(2 * tokens); i < 3 * tokens; ++i) {
      merges.add(below(tokens), below(tokens), {below(ranks), below(tokens)});
    }
    Symbols symbols(2 + below(200));
    for (Symbol& symbol : symbols) symbol = {below(tokens), 1 + below(3)};
    const Symbols expected = merged_plainly(merges, symbols);
    merges.apply(symbols);
    EXPECT_EQ(pairs_of(symbols), pairs_of(expected)) << "round " << round;
  }
}

// The merge of tokens 0 and 1 makes 0 again: each merge but the last of a group waits for a place to
// the left of all others. A million letters never ended while these places were sorted each time.
TEST(Merges, AMergeThatMakesItsOwnLeftPartEndsInLongWords) {
  Merges merges;
  merges.add(0, 1, {0, 0});
  Symbols symbols;
  for (std::uint32_t i = 0; i < 999'999; ++i) symbols.push_back({i % 3 == 0 ? 0U : 1U, 1});
  merges.apply(symbols);
  EXPECT_EQ(pairs_of(symbols), Pairs(333'333, {0, 3}));
}

TEST(WaitingPlaces, PlacesThatComeBackCostNoMoreComparisonsThanSorting) {
  constexpr std::size_t kPlaces = 4096;
  WaitingPlaces<CountedPlace> waiting;
  for (std::size_t i = 0; i < kPlaces; ++i) waiting.add({i});
  CountedPlace::comparisons = 0;
  for (std::size_t i = 0; i < 3 * kPlaces; ++i) {
    const auto taken = waiting.take();
    ASSERT_EQ(taken->place, i / 3);
    if (i % 3 != 2) waiting.add(*taken);
  }
  EXPECT_FALSE(waiting.take());
  const double n = 3 * kPlaces;
  EXPECT_LE(static_cast<double>(CountedPlace::comparisons), 2 * n * std::log2(n));
}

TEST(WaitingPlaces, LatePlacesInAnyOrderAreTakenFromTheLeft) {
  std::mt19937 random(1);
  WaitingPlaces<std::uint32_t> waiting;
  std::multiset<std::uint32_t> expected;
  for (int i = 0; i < 2000; ++i) {
    const auto place = static_cast<std::uint32_t>(random() % 500);
    if (expected.empty() || random() % 3 != 0) {
      waiting.add(place);
      expected.insert(place);
    } else {
      ASSERT_EQ(waiting.take(), *expected.begin());
      expected.erase(expected.begin());
    }
  }
}

}  // namespace
}  // namespace accelerate::detail
