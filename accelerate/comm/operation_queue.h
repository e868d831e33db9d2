// Operations made of several steps, one after the other on a thread of their own.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>

#include "accelerate/comm/communicator.h"

namespace accelerate::detail {

/// Runs operations in the order they were submitted, so that ranks that submit the same operations
/// run them in the same order, in whatever order they wait. The thread starts with the first one,
/// takes no signals, computes on one core and has the identity of the thread that submitted first.
///
/// The first operation that throws fails the queue: those behind it fail with the same exception,
/// for peers do not meet any more. Threads: everything may be called from any thread. In a child
/// made by fork() the queue is idle for ever, and submit() throws UsageError.
class OperationQueue {
 public:
  /// `on_failure` is called once with the exception of a failed operation, on the queue's thread
  /// and before anybody hears of it.
  explicit OperationQueue(std::function<void(const std::exception&)> on_failure);
  /// Fails what was not begun and waits for what was.
  ~OperationQueue();
  OperationQueue(const OperationQueue&) = delete;
  OperationQueue& operator=(const OperationQueue&) = delete;

  /// Its wait() returns when `operation` has run and throws what it threw.
  [[nodiscard]] Work submit(std::function<void()> operation);

  /// Fails all operations that have not ended, and later ones, with `failure`. One under way goes
  /// on until it ends by itself. Nothing happens to a queue that has failed already.
  void fail(std::exception_ptr failure);

  /// Whether nothing is left to run, after waiting up to `limit` for that.
  [[nodiscard]] bool idle_within(std::chrono::milliseconds limit);

  /// Takes operations again after a failure. To be called when idle.
  void recover();

 private:
  struct State;
  struct Ticket;
  class Pending;
  static void run(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;
};

}  // namespace accelerate::detail
