#include "accelerate/comm/communicator.h"

#include <ATen/ops/empty.h>

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

void Work::wait() {
  if (!state_) return;
  if (state_->failure) std::rethrow_exception(state_->failure);
  if (!state_->pending) return;
  const auto pending = std::exchange(state_->pending, nullptr);
  try {
    pending->wait();
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

}  // namespace accelerate
