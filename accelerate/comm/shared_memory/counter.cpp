#include "accelerate/comm/shared_memory/counter.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace accelerate::detail {
namespace {

static_assert(std::atomic<std::uint32_t>::is_always_lock_free &&
                  sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t),
              "the kernel looks at the counter's four bytes");

// Without FUTEX_PRIVATE_FLAG, because it works between processes.
void futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value,
           const timespec* limit) {
  (void)syscall(SYS_futex, &word, operation, value, limit, nullptr, 0);
}

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

constexpr int kLooksBetweenClocks = 128;

}  // namespace

void Counter::wake() {
  futex(value_, FUTEX_WAKE, INT_MAX, nullptr);
}

bool Counter::sleep_until(std::uint32_t target, std::chrono::nanoseconds limit) {
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  // Either the owner sees this sleeper, or this load sees the value that the owner stored before it
  // looked for sleepers. The kernel sleeps only if the word still has the value seen here.
  const std::uint32_t seen = value_.load(std::memory_order_seq_cst);
  if (static_cast<std::int32_t>(seen - target) < 0) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit);
    const timespec relative{static_cast<std::time_t>(seconds.count()),
                            static_cast<long>((limit - seconds).count())};
    futex(value_, FUTEX_WAIT, seen, &relative);
  }
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
  return reached(target);
}

bool watch(const Blocked& blocked, std::chrono::nanoseconds spin, std::chrono::nanoseconds limit) {
  if (blocked.counter->reached(blocked.target)) return true;
  if (spin.count() > 0) {
    const auto end = std::chrono::steady_clock::now() + spin;
    do {
      for (int look = 0; look < kLooksBetweenClocks; ++look) {
        pause();
        if (blocked.counter->reached(blocked.target)) return true;
      }
      sched_yield();  // The peer may need this core.
    } while (std::chrono::steady_clock::now() < end);
  }
  return blocked.counter->sleep_until(blocked.target, limit);
}

}  // namespace accelerate::detail
