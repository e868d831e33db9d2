// Runs independent pieces of work on several threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace accelerate::detail {

/// Calls `work(next)` on at most `threads` threads, including the caller's. `next()` returns the
/// numbers below `count`, each once, then nullopt. After the first exception `next()` returns no
/// more numbers, and the exception is thrown when all threads are done.
template <typename Work>
void for_each_parallel(std::size_t count, std::size_t threads, const Work& work) {
  std::atomic<std::size_t> next_number = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto next = [&]() -> std::optional<std::size_t> {
    const std::size_t number = next_number++;
    return number < count ? std::optional(number) : std::nullopt;
  };
  const auto run = [&] {
    try {
      work(next);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
      next_number = count;
    }
  };
  if (count == 0) return;
  {
    std::vector<std::jthread> workers;
    for (std::size_t i = 1; i < std::min(threads, count); ++i) workers.emplace_back(run);
    run();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace accelerate::detail
