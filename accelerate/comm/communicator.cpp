#include "accelerate/comm/communicator.h"

#include <ATen/ops/empty.h>

#include <chrono>
#include <exception>
#include <utility>

namespace accelerate {

struct Work::State {
  std::unique_ptr<Pending> pending;
  std::function<void()> then;
  std::exception_ptr failure;
};

Work::Work(std::unique_ptr<Pending> pending, std::function<void()> then)
    : state_(std::make_shared<State>(State{std::move(pending), std::move(then), nullptr})) {}

namespace {

thread_local double waited_seconds = 0;

// Adds its lifetime to waited_seconds.
class WaitScope {
 public:
  WaitScope() = default;
  ~WaitScope() { waited_seconds += std::chrono::duration<double>(Clock::now() - start_).count(); }
  WaitScope(const WaitScope&) = delete;
  WaitScope& operator=(const WaitScope&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

void wait_for(Work::Pending& pending) {
  const WaitScope scope;
  pending.wait();
}

}  // namespace

double detail::seconds_waited() {
  return waited_seconds;
}

void Work::wait() {
  if (!state_) return;
  if (state_->failure) std::rethrow_exception(state_->failure);
  if (!state_->pending) return;
  const auto pending = std::exchange(state_->pending, nullptr);
  try {
    wait_for(*pending);
    if (state_->then) state_->then();
    state_->then = nullptr;
  } catch (...) {
    state_->failure = std::current_exception();
    throw;
  }
}

bool Work::is_completed() const {
  return !state_ || !state_->pending || state_->pending->is_completed();
}

at::Tensor Communicator::empty(at::IntArrayRef sizes, const at::TensorOptions& options) {
  return at::empty(sizes, options);
}

std::shared_ptr<detail::SharedGroup> Communicator::shared_group() const {
  return nullptr;
}

}  // namespace accelerate
