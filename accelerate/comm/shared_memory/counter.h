// A number in shared memory that its owner raises and the peers wait for: all that ranks of one
// host ever tell each other. tests/comm/shared_memory/model/ has a proof that no waiter is left
// asleep.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace accelerate::detail {

/// Wraps around at 2^32: targets are compared by their distance, which must stay below 2^31.
class Counter {
 public:
  [[nodiscard]] std::uint32_t value() const { return value_.load(std::memory_order_acquire); }
  /// Whoever sees a target reached sees everything that the owner wrote before it.
  [[nodiscard]] bool reached(std::uint32_t target) const {
    return static_cast<std::int32_t>(value() - target) >= 0;
  }

  /// By the owner only. Cost: a store, and a system call when somebody sleeps.
  void raise_to(std::uint32_t value) {
    value_.store(value, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) != 0) wake();
  }

  /// Sleeps until `target` is reached, wake() is called or `limit` is over. Returns whether it is
  /// reached.
  bool sleep_until(std::uint32_t target, std::chrono::nanoseconds limit);
  /// Ends every sleep on this counter, in all processes.
  void wake();

 private:
  std::atomic<std::uint32_t> value_{0};
  // A sleeper that is killed stays counted: later raises then make a needless system call.
  std::atomic<std::uint32_t> sleepers_{0};
};

/// A value that a counter has yet to reach.
struct Blocked {
  Counter* counter = nullptr;
  std::uint32_t target = 0;
  int rank = 0;  ///< Its owner.
};

/// Waits for `blocked`, awake for `spin`, asleep until `limit` is over. Returns whether it came.
bool watch(const Blocked& blocked, std::chrono::nanoseconds spin, std::chrono::nanoseconds limit);

}  // namespace accelerate::detail
