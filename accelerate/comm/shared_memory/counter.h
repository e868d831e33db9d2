// A number in shared memory that its owner raises and its peers wait for: the way in which ranks of
// one host wait for each other. tests/comm/shared_memory/model/ has a proof that no waiter is left
// asleep.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace accelerate::detail {

/// Wraps around at 2^32. A value and a target are compared by their distance, which must stay below
/// 2^31.
class Counter {
 public:
  [[nodiscard]] std::uint32_t value() const { return value_.load(std::memory_order_acquire); }
  /// Whether `target` is reached. If so, everything that the owner wrote before is visible.
  [[nodiscard]] bool reached(std::uint32_t target) const {
    return static_cast<std::int32_t>(value() - target) >= 0;
  }

  /// To be called by the owner only. Cost: a store, and a system call if somebody sleeps.
  void raise_to(std::uint32_t value) {
    value_.store(value, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) != 0) wake();
  }

  /// Sleeps until `target` is reached, wake() is called or `limit` is over. Returns whether the
  /// target is reached.
  bool sleep_until(std::uint32_t target, std::chrono::nanoseconds limit);
  /// Ends every sleep on this counter, in all processes.
  void wake();

 private:
  std::atomic<std::uint32_t> value_{0};
  // A sleeper that is killed stays counted; later raises then make a needless system call.
  std::atomic<std::uint32_t> sleepers_{0};
};

/// A value that a counter has yet to reach.
struct Blocked {
  Counter* counter = nullptr;
  std::uint32_t target = 0;
  int rank = 0;  ///< The counter's owner.
};

/// Waits for `blocked`: spins for `spin`, then sleeps for at most `limit`. Returns whether the
/// target is reached.
bool watch(const Blocked& blocked, std::chrono::nanoseconds spin, std::chrono::nanoseconds limit);

}  // namespace accelerate::detail
