// Cross products cut to what finds most: nearly every fault needs two choices to come together.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "accelerate/base/environment.h"

namespace accelerate::testing {

/// Whether products are tested in full, as `scripts/test --extended` does.
inline bool extended() {
  return env_flag("ACCELERATE_TEST_EXTENDED", false);
}

/// Some of `all`, in their order, in which any two values of different factors come together that
/// do so in `all`; all of them when extended(). `factors` gives the values of a row, as texts, in
/// a fixed order.
template <typename Row, typename Factors>
std::vector<Row> pairwise(const std::vector<Row>& all, const Factors& factors) {
  if (extended()) return all;
  using Pair = std::tuple<std::size_t, std::string, std::size_t, std::string>;
  std::vector<std::set<Pair>> pairs;
  std::set<Pair> open;
  for (const Row& row : all) {
    const std::vector<std::string> values = factors(row);
    std::set<Pair>& own = pairs.emplace_back();
    for (std::size_t i = 0; i < values.size(); ++i)
      for (std::size_t k = i + 1; k < values.size(); ++k) own.emplace(i, values[i], k, values[k]);
    open.insert(own.begin(), own.end());
  }
  std::set<std::size_t> taken;
  while (!open.empty()) {  // The row that has most of what is open yet.
    std::size_t best = 0, most = 0;
    for (std::size_t row = 0; row < all.size(); ++row) {
      std::size_t fresh = 0;
      for (const Pair& pair : pairs[row]) fresh += open.count(pair);
      if (fresh > most) {
        best = row;
        most = fresh;
      }
    }
    taken.insert(best);
    for (const Pair& pair : pairs[best]) open.erase(pair);
  }
  std::vector<Row> some;
  for (const std::size_t row : taken) some.push_back(all[row]);
  return some;
}

}  // namespace accelerate::testing
