// A table of where segments are mapped, which readers search without a lock.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace accelerate::detail {

/// Intervals of numbers (addresses, or offsets in a file), which do not overlap. They are added one
/// by one and never removed. Readers take no lock; only one thread may add at a time.
class IntervalTable {
 public:
  struct Interval {
    std::uint64_t start = 0;
    std::uint64_t bytes = 0;
    std::uint64_t target = 0;  ///< What `start` is mapped to: an address or an offset.
  };

  IntervalTable() { publish({}); }

  /// Returns the interval that holds all of [start, start + bytes); null if none does. Cost: a
  /// binary search among the intervals.
  [[nodiscard]] const Interval* find(std::uint64_t start, std::uint64_t bytes) const {
    const Intervals& all = *current_.load(std::memory_order_acquire);
    auto after = std::upper_bound(all.begin(), all.end(), start, starts_after);
    if (after == all.begin()) return nullptr;
    const Interval& found = *--after;
    const std::uint64_t skipped = start - found.start;
    if (skipped > found.bytes || bytes > found.bytes - skipped) return nullptr;
    return &found;
  }

  void add(Interval interval) {
    Intervals next = all();
    next.insert(std::upper_bound(next.begin(), next.end(), interval.start, starts_after), interval);
    publish(std::move(next));
  }

  /// The intervals in ascending order.
  [[nodiscard]] const std::vector<Interval>& all() const {
    return *current_.load(std::memory_order_acquire);
  }

 private:
  using Intervals = std::vector<Interval>;

  static bool starts_after(std::uint64_t start, const Interval& interval) {
    return start < interval.start;
  }

  // Keeps all earlier versions, because a reader may still use one. They are few and small.
  void publish(Intervals next) {
    versions_.push_back(std::make_unique<const Intervals>(std::move(next)));
    current_.store(versions_.back().get(), std::memory_order_release);
  }

  std::vector<std::unique_ptr<const Intervals>> versions_;
  std::atomic<const Intervals*> current_{nullptr};
};

}  // namespace accelerate::detail
