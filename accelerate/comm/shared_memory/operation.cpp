#include "accelerate/comm/shared_memory/operation.h"

#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"

namespace accelerate::detail {
namespace {

void require_equal(const Group& group, int peer, std::uint32_t number) {
  const Call& mine = group.own().calls[number % kCallsKept];
  const Call& theirs = group.block.lines(peer).calls[number % kCallsKept];
  if (agree(theirs, mine)) return;
  throw CommError("the ranks call different operations as number " + std::to_string(number + 1) +
                      " of the group: rank " + std::to_string(group.rank) + " calls " +
                      describe(mine) + ", rank " + std::to_string(peer) + " calls " +
                      describe(theirs),
                  error_name::kDifferentCollectives);
}

}  // namespace

std::optional<Blocked> Group::blocked_on(int who, Counter RankLines::* counter,
                                         std::uint32_t target) const {
  if (who == kNobody) return std::nullopt;
  const int first = who == kEveryone ? 0 : who;
  const int last = who == kEveryone ? size() - 1 : who;
  for (int peer = first; peer <= last; ++peer) {
    Counter& theirs = block.lines(peer).*counter;
    if (peer != rank && !theirs.reached(target)) return Blocked{&theirs, target, peer};
  }
  return std::nullopt;
}

Operation::Operation(Call call, int read_in_place, Make make, std::shared_ptr<void> keep)
    : Pending(std::move(keep)),
      call_(call),
      read_in_place_(call.bytes >= kInPlaceFrom ? read_in_place : kNobody),
      make_(std::move(make)) {}

std::optional<Blocked> Operation::advance(const Group& group, std::uint32_t number,
                                          std::uint32_t turn) {
  number_ = number;
  turn_ = turn;
  if (!rounds_) {
    if (auto blocked = choose(group)) return blocked;
  }
  const std::uint32_t count = rounds_->count();
  const bool reduces = rounds_->needs().reduces;
  while (drained_ < count) {
    // Tries later steps first, because their data is in the cache. If none is possible, waits for
    // what the step of the earliest round needs.
    std::optional<Blocked> first;
    const auto made = [&](bool possible, std::optional<Blocked> (Operation::*step)(const Group&)) {
      if (!possible) return false;
      const auto blocked = (this->*step)(group);
      if (blocked && !first) first = blocked;
      return !blocked;
    };
    if (made(drained_ < (reduces ? reduced_ : filled_), &Operation::drain)) continue;
    if (made(reduces && reduced_ < filled_, &Operation::reduce)) continue;
    if (made(filled_ < count, &Operation::fill)) continue;
    return first;
  }
  return std::nullopt;
}

std::optional<Blocked> Operation::choose(const Group& group) {
  if (!posted_) {
    group.own().calls[number_ % kCallsKept] = call_;
    group.own().posted.raise_to(number_ + 1);
    posted_ = true;
  }
  if (read_in_place_ == kNobody) {
    rounds_ = make_({});
    return std::nullopt;
  }
  if (auto blocked = group.blocked_on(kEveryone, &RankLines::posted, number_ + 1)) return blocked;
  compare(group, kEveryone);
  in_place_ = can_be_in_place(group);
  rounds_ = make_(in_place_ ? mapped(group) : std::vector<std::byte*>{});
  return std::nullopt;
}

bool Operation::can_be_in_place(const Group& group) const {
  for (int peer = 0; peer < group.size(); ++peer) {
    const bool is_read = read_in_place_ == kEveryone || read_in_place_ == peer;
    if (is_read && !group.block.lines(peer).calls[number_ % kCallsKept].in_arena) return false;
  }
  return true;
}

std::vector<std::byte*> Operation::mapped(const Group& group) const {
  std::vector<std::byte*> addresses(static_cast<std::size_t>(group.size()));
  for (int peer = 0; peer < group.size(); ++peer) {
    if (read_in_place_ != kEveryone && read_in_place_ != peer) continue;
    addresses[static_cast<std::size_t>(peer)] =
        group.peers.map(peer, group.block.lines(peer).calls[number_ % kCallsKept].where);
  }
  return addresses;
}

std::optional<Blocked> Operation::fill(const Group& group) {
  const std::uint32_t target = turn_ + filled_ + 1;
  // The slot is free when all ranks have drained its earlier round.
  if (auto blocked = group.blocked_on(kEveryone, &RankLines::drained, target - kSlots)) {
    return blocked;
  }
  rounds_->fill(filled_, group.block.slot(group.rank, target - 1));
  group.own().filled.raise_to(target);
  ++filled_;
  return std::nullopt;
}

std::optional<Blocked> Operation::reduce(const Group& group) {
  const auto& needs = rounds_->needs();
  const std::uint32_t target = turn_ + reduced_ + 1;
  if (auto blocked = group.blocked_on(needs.filled_to_reduce, &RankLines::filled, target)) {
    return blocked;
  }
  compare(group, needs.filled_to_reduce);
  rounds_->reduce(reduced_, {group.block, target - 1});
  group.own().reduced.raise_to(target);
  ++reduced_;
  return std::nullopt;
}

std::optional<Blocked> Operation::drain(const Group& group) {
  const auto& needs = rounds_->needs();
  const std::uint32_t target = turn_ + drained_ + 1;
  if (auto blocked = group.blocked_on(needs.filled_to_drain, &RankLines::filled, target)) {
    return blocked;
  }
  if (auto blocked = group.blocked_on(needs.reduced_to_drain, &RankLines::reduced, target)) {
    return blocked;
  }
  compare(group, needs.filled_to_drain);
  rounds_->drain(drained_, {group.block, target - 1});
  group.own().drained.raise_to(target);
  ++drained_;
  return std::nullopt;
}

void Operation::compare(const Group& group, int who) {
  if (who == kNobody || compared_with_all_) return;
  if (who != kEveryone) {
    if (!compared_with_one_) compare_with(group, who);
    compared_with_one_ = true;
    return;
  }
  for (int peer = 0; peer < group.size(); ++peer) compare_with(group, peer);
  compared_with_all_ = true;
}

void Operation::compare_with(const Group& group, int peer) const {
  if (peer == group.rank || !posted_) return;
  if (!group.block.lines(peer).posted.reached(number_ + 1)) return;
  require_equal(group, peer, number_);
  // A call with a root ends without a comparison with every rank, so earlier calls with a root are
  // compared now. A peer is never so far ahead that it has overwritten them.
  for (std::uint32_t n = 1; n < kSlots && n <= number_; ++n) {
    if (group.own().calls[(number_ - n) % kCallsKept].root < 0) return;
    require_equal(group, peer, number_ - n);
  }
}

}  // namespace accelerate::detail
