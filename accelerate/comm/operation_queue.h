// Runs operations of several steps one after the other, on a thread that does nothing else.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>

#include "accelerate/comm/communicator.h"

namespace accelerate::detail {

/// Runs operations in the order in which they were submitted. So ranks that submit the same
/// operations run them in the same order, in whatever order they wait. The thread starts with the
/// first operation. It takes no signals, computes on one core and has the identity of the thread
/// that submitted that operation.
///
/// The first operation that throws fails the queue: all later operations fail with the same
/// exception, because the ranks no longer run the same ones. Every function may be called from any
/// thread. In a child made by fork() the queue is always idle, and submit() throws UsageError.
class OperationQueue {
 public:
  /// `on_failure` is called with the exception of a failed operation, on the queue's thread, before
  /// any wait() throws it.
  explicit OperationQueue(std::function<void(const std::exception&)> on_failure);
  /// Fails the operations that have not begun, and waits for the one under way.
  ~OperationQueue();
  OperationQueue(const OperationQueue&) = delete;
  OperationQueue& operator=(const OperationQueue&) = delete;

  /// Queues `operation`. The wait() of the returned Work returns when `operation` has run, and
  /// throws what it threw.
  [[nodiscard]] Work submit(std::function<void()> operation);

  /// Fails the operations that have not begun, and later ones, with `failure`. The operation under
  /// way is not interrupted; if it throws, it fails with `failure` too. A queue that has failed
  /// keeps its first failure.
  void fail(std::exception_ptr failure);

  /// Waits up to `limit` for the queue to become idle. Returns whether it is.
  [[nodiscard]] bool idle_within(std::chrono::milliseconds limit);

  /// Accepts operations again after a failure. To be called when the queue is idle.
  void recover();

 private:
  struct State;
  struct Ticket;
  class Pending;
  static void run(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;
};

}  // namespace accelerate::detail
