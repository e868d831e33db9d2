#include "accelerate/transformers/trainer/data/batch_lists.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

namespace accelerate::detail {
namespace {

using Counts = std::vector<std::size_t>;

double cost_of(std::size_t samples, std::int64_t longest) {
  const auto n = static_cast<double>(samples), length = static_cast<double>(longest);
  return n * length + 0.001 * n * length * length;
}

// Decides how many of a step's samples, sorted from long to short, each of its batches gets. One
// sample at a time moves from the costliest batch to the cheapest, until that gains nothing.
class Balance {
 public:
  Balance(std::vector<std::int64_t> lengths, const BalancedStep& step);

  [[nodiscard]] Counts counts();

 private:
  [[nodiscard]] std::vector<double> costs() const;
  [[nodiscard]] std::vector<std::size_t> by_cost(const std::vector<double>& costs) const;
  void move_one(const std::vector<std::size_t>& batches, const std::vector<double>& costs);
  void relieve(std::size_t costliest, const std::vector<double>& costs);
  void fill(std::size_t batch, double limit, const std::set<std::size_t>& slot);
  [[nodiscard]] std::size_t first_of(std::size_t batch) const;

  std::vector<std::int64_t> lengths_;  // Lengths of the step's samples, longest first.
  std::size_t ranks_;
  std::size_t most_moves_;
  Counts counts_;
  std::vector<bool> is_settled_;
};

Balance::Balance(std::vector<std::int64_t> lengths, const BalancedStep& step)
    : lengths_(std::move(lengths)),
      ranks_(static_cast<std::size_t>(step.ranks)),
      most_moves_(static_cast<std::size_t>(std::max(step.batches() * 30, step.samples()))),
      is_settled_(static_cast<std::size_t>(step.batches()), false) {
  const auto batches = static_cast<std::size_t>(step.batches());
  for (std::size_t i = 0; i < batches; ++i)
    counts_.push_back(lengths_.size() / batches + (i < lengths_.size() % batches ? 1 : 0));
}

std::size_t Balance::first_of(std::size_t batch) const {
  return std::accumulate(counts_.begin(), counts_.begin() + static_cast<std::ptrdiff_t>(batch),
                         std::size_t{0});
}

std::vector<double> Balance::costs() const {
  std::vector<double> costs;
  std::size_t first = 0;
  for (const std::size_t count : counts_) {
    costs.push_back(count == 0 ? 0 : cost_of(count, lengths_[first]));
    first += count;
  }
  return costs;
}

// Returns the batches that are not settled, cheapest first.
std::vector<std::size_t> Balance::by_cost(const std::vector<double>& costs) const {
  std::vector<std::size_t> batches;
  for (std::size_t i = 0; i < costs.size(); ++i)
    if (!is_settled_[i]) batches.push_back(i);
  std::ranges::stable_sort(batches, {}, [&](std::size_t i) { return costs[i]; });
  return batches;
}

Counts Balance::counts() {
  std::set<Counts> seen;
  Counts best = counts_;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t move = 0; move < most_moves_ && seen.insert(counts_).second; ++move) {
    const auto costs = this->costs();
    const auto batches = by_cost(costs);
    if (batches.size() <= 1) break;
    const double spread = costs[batches.back()] - costs[batches.front()];
    if (spread < least) {
      least = spread;
      best = counts_;
    }
    if (spread == 0) break;
    move_one(batches, costs);
  }
  return best;
}

void Balance::move_one(const std::vector<std::size_t>& batches, const std::vector<double>& costs) {
  // If several batches cost most, the first one counts, as in the original.
  const std::size_t costliest =
      *std::ranges::find(batches, costs[batches.back()], [&](std::size_t i) { return costs[i]; });
  if (counts_[costliest] > 1) {
    --counts_[costliest];
    ++counts_[batches.front()];
  } else {
    relieve(costliest, costs);
  }
}

// A batch of one sample cannot become cheaper. The batches that are trained at the same time may
// cost as much, so they take samples from the other batches. Then all of them are settled.
void Balance::relieve(std::size_t costliest, const std::vector<double>& costs) {
  std::vector<std::size_t> ranking(costs.size());
  std::iota(ranking.begin(), ranking.end(), std::size_t{0});
  std::ranges::stable_sort(ranking, std::greater<>(), [&](std::size_t i) { return costs[i]; });
  const auto place = static_cast<std::size_t>(
      std::distance(ranking.begin(), std::ranges::find(ranking, costliest)));
  const std::size_t first = place / ranks_ * ranks_;
  const std::size_t last = std::min(first + ranks_, ranking.size());
  const std::set<std::size_t> slot(ranking.begin() + static_cast<std::ptrdiff_t>(first),
                                   ranking.begin() + static_cast<std::ptrdiff_t>(last));
  for (const std::size_t batch : slot)
    if (!is_settled_[batch] && batch != costliest) fill(batch, costs[costliest], slot);
  for (const std::size_t batch : slot) is_settled_[batch] = true;
}

void Balance::fill(std::size_t batch, double limit, const std::set<std::size_t>& slot) {
  while (cost_of(counts_[batch] + 1, lengths_[first_of(batch)]) <= limit) {
    const auto batches = by_cost(costs());
    const auto donor = std::ranges::find_if(
        batches, [&](std::size_t i) { return !slot.contains(i) && counts_[i] > 1; });
    if (donor == batches.end()) return;
    ++counts_[batch];
    --counts_[*donor];
  }
}

// Returns the batches of one step, in the order in which they are trained.
BatchList batches_of(Indices samples, const std::vector<std::int64_t>& lengths,
                     const BalancedStep& step) {
  std::ranges::stable_sort(samples, std::greater<>(), [&](std::size_t i) { return lengths[i]; });
  std::vector<std::int64_t> sorted;
  for (const std::size_t sample : samples) sorted.push_back(lengths[sample]);
  BatchList batches;
  auto next = samples.begin();
  for (const std::size_t count : Balance(std::move(sorted), step).counts()) {
    const auto end = next + static_cast<std::ptrdiff_t>(count);
    batches.emplace_back(next, end);
    next = end;
  }
  std::ranges::stable_sort(batches, std::greater<>(), [&](const Indices& batch) {
    return cost_of(batch.size(), lengths[batch.front()]);
  });
  return batches;
}

}  // namespace

BatchList balanced_batches(const Indices& order, const std::vector<std::int64_t>& lengths,
                           const BalancedStep& step) {
  BatchList all;
  const auto samples = static_cast<std::size_t>(step.samples());
  const auto least = static_cast<std::size_t>(step.batches());
  for (std::size_t begin = 0; begin < order.size(); begin += samples) {
    const std::size_t end = std::min(begin + samples, order.size());
    if (end - begin < samples && step.drop_last) break;
    Indices of_step(order.begin() + static_cast<std::ptrdiff_t>(begin),
                    order.begin() + static_cast<std::ptrdiff_t>(end));
    for (std::size_t i = 0; of_step.size() < least; ++i) of_step.push_back(order[i % order.size()]);
    for (Indices& batch : batches_of(std::move(of_step), lengths, step))
      all.push_back(std::move(batch));
  }
  return all;
}

}  // namespace accelerate::detail
