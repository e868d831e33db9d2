#include "accelerate/state/gradient_state.h"

#include <algorithm>

namespace accelerate {

void GradientState::push(const LoaderProgress* progress) {
  loaders_.push_back(progress);
}

void GradientState::remove(const LoaderProgress* progress) noexcept {
  // Searches from the innermost on: loaders leave the stack in the reverse order.
  auto found = std::find(loaders_.rbegin(), loaders_.rend(), progress);
  if (found != loaders_.rend()) loaders_.erase(std::next(found).base());
}

void GradientState::begin_micro_batch() {
  if (sync_gradients && !micro_batch_failed) ++window_;
  micro_batch_failed = gradients_touched_ = gradients_dropped_ = false;
  step_before_ = step_;
  if (accumulation.sync_with_dataloader && end_of_dataloader()) {
    step_ = 0;
    sync_gradients = true;
  } else {
    ++step_;
    sync_gradients = step_ % accumulation.num_steps == 0;
  }
}

void GradientState::drop_gradients() {
  gradients_touched_ = false;
  gradients_dropped_ = true;
  ++window_;
}

void GradientState::abandon_micro_batch() {
  if (gradients_dropped_ && !gradients_touched_) return;
  (gradients_touched_ ? gradients_spoilt : micro_batch_failed) = true;
  step_ = step_before_;
}

void GradientState::resume(std::int64_t step) {
  reset();
  step_ = step_before_ = step;
  sync_gradients = step % accumulation.num_steps == 0;
}

void GradientState::reset() {
  micro_batch_failed = gradients_spoilt = false;
  sync_gradients = true;
  step_ = step_before_ = 0;
  drop_gradients();
}

bool GradientState::end_of_dataloader() const {
  return in_dataloader() && loaders_.back()->end_of_dataloader;
}

std::int64_t GradientState::remainder() const {
  return in_dataloader() ? loaders_.back()->remainder : -1;
}

}  // namespace accelerate
