// Runs independent pieces of work on several threads, in any order or with results in order.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace accelerate::detail {

/// Calls `run()`, which must not throw, on `threads` threads, including the caller's; on fewer if the
/// system refuses to start more. Returns when all calls have returned.
template <typename Run>
void run_on_threads(std::size_t threads, const Run& run) {
  std::vector<std::jthread> helpers;
  try {
    for (std::size_t i = 1; i < threads; ++i) helpers.emplace_back(run);
  } catch (const std::system_error&) {
    // The threads that were started do the work.
  }
  run();
}

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
  if (count > 0) run_on_threads(std::min(threads, count), run);
  if (failure) std::rethrow_exception(failure);
}

/// How many results a thread may be ahead of the next result that put() needs.
inline constexpr std::size_t kResultsAhead = 4;
/// The most threads to start; no machine profits from more.
inline constexpr std::size_t kMostThreads = 1024;

/// Computes work(0) … work(count - 1) as run_on_threads() does, and passes the results to put() in
/// this order. Uses fewer threads if there is less work. Calls of put() do not overlap; the thread
/// that has the next result makes the call. A thread that is too far ahead waits. After a failure
/// no new work begins. Rethrows the failure with the lowest index, even if another one happened
/// earlier.
template <typename Work, typename Put>
void in_order(std::size_t count, std::size_t threads, const Work& work, const Put& put) {
  threads = std::min({threads, count, kMostThreads});
  using Result = decltype(work(std::size_t{0}));
  const std::size_t ahead = std::max<std::size_t>(threads, 1) * kResultsAhead;
  std::mutex mutex;
  std::condition_variable room;
  std::vector<std::optional<Result>> waiting(ahead);
  std::size_t begun = 0, done = 0, failed = count;
  bool is_putting = false;
  std::exception_ptr failure;

  // Requires that the lock is held.
  const auto fail = [&](std::size_t i) {
    if (i >= failed) return;
    failed = i;
    failure = std::current_exception();
  };
  const auto put_ready = [&](std::unique_lock<std::mutex>& lock) {
    if (is_putting) return;
    is_putting = true;
    while (done < failed && waiting[done % ahead]) {
      const Result result = *std::exchange(waiting[done % ahead], std::nullopt);
      lock.unlock();
      try {
        put(result);
        lock.lock();
        ++done;
      } catch (...) {
        lock.lock();
        fail(done);
      }
      room.notify_all();
    }
    is_putting = false;
  };
  const auto run = [&] {
    std::unique_lock lock(mutex);
    for (;;) {
      room.wait(lock, [&] { return begun >= failed || begun < done + ahead; });
      if (begun >= failed) return;
      const std::size_t i = begun++;
      lock.unlock();
      try {
        Result result = work(i);
        lock.lock();
        waiting[i % ahead] = std::move(result);
      } catch (...) {
        lock.lock();
        fail(i);
        room.notify_all();
      }
      put_ready(lock);
    }
  };
  run_on_threads(threads, run);
  if (failure) std::rethrow_exception(failure);
}

}  // namespace accelerate::detail
