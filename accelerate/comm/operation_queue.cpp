#include "accelerate/comm/operation_queue.h"

#include <ATen/record_function.h>
#include <pthread.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/process_identity.h"
#include "accelerate/base/signal_guards.h"
#include "accelerate/comm/announced_call.h"
#include "accelerate/tensor/compat/one_core.h"

namespace accelerate::detail {

struct OperationQueue::Ticket {
  std::function<void()> operation;
  const char* call = announced_call();  // the user's call on the thread that submits
  bool done = false;
  std::exception_ptr failure;
};

struct OperationQueue::State {
  std::function<void(const std::exception&)> on_failure;
  std::mutex mutex;  // guards all members below, and the tickets
  std::condition_variable changed;
  std::deque<std::shared_ptr<Ticket>> waiting;
  std::shared_ptr<Ticket> running;
  std::exception_ptr failure;
  bool stopping = false;
  std::thread thread;
  const pid_t process = getpid();

  // In a child made by fork() the thread does not exist, and the mutex may never be released.
  [[nodiscard]] bool is_of_parent() const { return getpid() != process; }

  [[nodiscard]] bool idle() const { return waiting.empty() && running == nullptr; }

  // The caller holds the mutex. Frees the operation as well, which keeps tensors alive.
  void end(Ticket& ticket, std::exception_ptr why) {
    ticket.done = true;
    ticket.failure = std::move(why);
    ticket.operation = nullptr;
  }

  // The caller holds the mutex.
  void fail_waiting(const std::exception_ptr& why) {
    if (!failure) failure = why;
    for (const auto& ticket : waiting) end(*ticket, failure);
    waiting.clear();
  }
};

// Shares the state with the queue, because a Work may outlive the queue.
class OperationQueue::Pending final : public Work::Pending {
 public:
  Pending(std::shared_ptr<State> state, std::shared_ptr<Ticket> ticket)
      : state_(std::move(state)), ticket_(std::move(ticket)) {}

  void wait() override {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait(lock, [&] { return ticket_->done; });
    if (ticket_->failure) std::rethrow_exception(ticket_->failure);
  }

  bool is_completed() const override {
    const std::lock_guard lock(state_->mutex);
    return ticket_->done;
  }

 private:
  std::shared_ptr<State> state_;
  std::shared_ptr<Ticket> ticket_;
};

namespace {

// Runs `operation`. Returns what it threw, after a call of `on_failure`; null when it succeeded.
std::exception_ptr outcome_of(const std::function<void()>& operation,
                              const std::function<void(const std::exception&)>& on_failure) {
  try {
    operation();
    return nullptr;
  } catch (const std::exception& error) {
    on_failure(error);
    return std::current_exception();
  }
}

}  // namespace

OperationQueue::OperationQueue(std::function<void(const std::exception&)> on_failure)
    : state_(std::make_shared<State>()) {
  state_->on_failure = std::move(on_failure);
}

OperationQueue::~OperationQueue() {
  if (state_->is_of_parent()) {
    if (state_->thread.joinable()) state_->thread.detach();
    return;
  }
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
    state_->fail_waiting(
        std::make_exception_ptr(CommError("the group was left before this operation was begun")));
  }
  state_->changed.notify_all();
  if (state_->thread.joinable()) state_->thread.join();
}

Work OperationQueue::submit(std::function<void()> operation) {
  if (state_->is_of_parent()) {
    throw UsageError(
        "a collective was begun in a process made by fork(), and the group belongs to its parent. "
        "Fork before the group is made, or start the child as a program of its own.",
        error_name::kProcessForked);
  }
  auto ticket = std::make_shared<Ticket>();
  const std::lock_guard lock(state_->mutex);
  if (state_->failure) {
    state_->end(*ticket, state_->failure);
  } else {
    ticket->operation = std::move(operation);
    state_->waiting.push_back(ticket);
    if (!state_->thread.joinable()) {
      const BlockedSignals blocked;
      state_->thread = std::thread([state = state_, identity = process_identity()] {
        const ScopedProcessIdentity scope(identity);
        run(state);
      });
    }
    state_->changed.notify_all();
  }
  return Work(std::make_unique<Pending>(state_, std::move(ticket)));
}

void OperationQueue::fail(std::exception_ptr failure) {
  if (state_->is_of_parent()) return;
  {
    const std::lock_guard lock(state_->mutex);
    state_->fail_waiting(failure);
  }
  state_->changed.notify_all();
}

bool OperationQueue::idle_within(std::chrono::milliseconds limit) {
  if (state_->is_of_parent()) return true;
  std::unique_lock lock(state_->mutex);
  return state_->changed.wait_for(lock, limit, [&] { return state_->idle(); });
}

void OperationQueue::recover() {
  const std::lock_guard lock(state_->mutex);
  state_->failure = nullptr;
}

void OperationQueue::run(const std::shared_ptr<State>& state) {
  pthread_setname_np(pthread_self(), "comm-queue");
  const at::DisableRecordFunctionGuard unobserved;
  compute_on_one_core();
  std::unique_lock lock(state->mutex);
  while (true) {
    state->changed.wait(lock, [&] { return state->stopping || !state->waiting.empty(); });
    if (state->waiting.empty()) return;
    state->running = std::move(state->waiting.front());
    state->waiting.pop_front();
    const auto ticket = state->running;
    lock.unlock();
    auto failure = [&] {
      const AnnouncedCall scope(ticket->call);
      return outcome_of(ticket->operation, state->on_failure);
    }();
    lock.lock();
    // If fail() was called while the operation ran, its reason is the cause of whatever was thrown.
    if (failure && state->failure) failure = state->failure;
    state->running = nullptr;
    state->end(*ticket, failure);
    if (failure) state->fail_waiting(failure);
    state->changed.notify_all();
  }
}

}  // namespace accelerate::detail
