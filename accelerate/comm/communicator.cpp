#include "accelerate/comm/communicator.h"

#include <exception>
#include <utility>

namespace accelerate {

std::string_view to_string(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::mean:
      return "mean";
    case ReduceOp::min:
      return "min";
    case ReduceOp::max:
      return "max";
    case ReduceOp::product:
      return "product";
    case ReduceOp::band:
      return "band";
    case ReduceOp::bor:
      return "bor";
    case ReduceOp::bxor:
      return "bxor";
  }
  return "unknown";
}

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

}  // namespace accelerate
