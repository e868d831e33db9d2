#include "accelerate/transformers/trainer/data/epoch_batches.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "accelerate/transformers/trainer/data/batch_lists.h"

namespace accelerate::detail {

bool EpochCut::cuts_like(const EpochCut& other) const {
  const auto all = [](const EpochCut& cut) {
    return std::tie(cut.strategy, cut.batch_size, cut.ranks, cut.accumulation, cut.max_tokens,
                    cut.drop_last, cut.split_batches);
  };
  return all(*this) == all(other);
}

BatchList EpochBatches::of(std::int64_t epoch) const {
  return cut_up(epoch, other_epoch_ == epoch ? other_cut_ : cut_);
}

std::int64_t EpochBatches::count(std::int64_t epoch) const {
  return static_cast<std::int64_t>(cut_up(epoch, cut_).size());
}

Indices EpochBatches::order_of(std::int64_t epoch, const EpochCut& cut) const {
  const auto seed = seed_ + static_cast<std::uint64_t>(epoch);
  Indices order = cut.strategy == "group_by_length"
                      ? length_grouped(lengths_, cut.order_samples, seed)
                  : cut.strategy == "sequential" ? given_order(lengths_.size())
                                                 : random_order(lengths_.size(), seed);
  const auto behind = std::min(static_cast<std::size_t>(cut.offset), order.size());
  order.erase(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(behind));
  return order;
}

// Neighbouring batches go to different ranks, and into one step.
BatchList EpochBatches::cut_up(std::int64_t epoch, const EpochCut& cut) const {
  const Indices order = order_of(epoch, cut);
  if (cut.strategy == "batch_rebalance")
    return balanced_batches(order, lengths_,
                            {.batch_size = cut.batch_size,
                             .ranks = cut.ranks,
                             .accumulation = cut.accumulation,
                             .drop_last = cut.drop_last});
  return cut.max_tokens > 0 ? cut_by_tokens(order, lengths_, cut.max_tokens)
                            : cut_by_count(order, cut.batch_size, cut.drop_last);
}

// Batches take the samples of the order from its beginning; batch_rebalance does so step by step,
// and a training goes on between two steps.
EpochCut EpochBatches::rest(std::int64_t epoch, const EpochCut& then, std::size_t batches) const {
  EpochCut rest = cut_;
  rest.order_samples = then.order_samples;
  rest.offset = then.offset;
  const BatchList all = cut_up(epoch, then);
  for (std::size_t i = 0; i < std::min(batches, all.size()); ++i)
    rest.offset += static_cast<std::int64_t>(all[i].size());
  return rest;
}

void EpochBatches::go_on(std::int64_t epoch, const EpochCut& cut, std::uint64_t seed) {
  other_epoch_ = epoch;
  other_cut_ = cut;
  seed_ = seed;
}

}  // namespace accelerate::detail
