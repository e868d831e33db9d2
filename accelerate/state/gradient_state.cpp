#include "accelerate/state/gradient_state.h"

#include <algorithm>

namespace accelerate {

void GradientState::push(const LoaderProgress* progress) {
  loaders_.push_back(progress);
}

void GradientState::remove(const LoaderProgress* progress) noexcept {
  // The innermost first: a loader that iterates inside itself leaves in the order it came.
  auto found = std::find(loaders_.rbegin(), loaders_.rend(), progress);
  if (found != loaders_.rend()) loaders_.erase(std::next(found).base());
}

void GradientState::begin_micro_batch() {
  micro_batch_failed = false;
  step_before_ = step_;
  if (accumulation.sync_with_dataloader && end_of_dataloader()) {
    step_ = 0;
    sync_gradients = true;
  } else {
    ++step_;
    sync_gradients = step_ % accumulation.num_steps == 0;
  }
}

void GradientState::abandon_micro_batch() {
  micro_batch_failed = true;
  step_ = step_before_;
}

void GradientState::reset() {
  micro_batch_failed = false;
  sync_gradients = true;
  step_ = step_before_ = 0;
}

bool GradientState::end_of_dataloader() const {
  return in_dataloader() && loaders_.back()->end_of_dataloader;
}

std::int64_t GradientState::remainder() const {
  return in_dataloader() ? loaders_.back()->remainder : -1;
}

}  // namespace accelerate
