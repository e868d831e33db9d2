#include "accelerate/parallel/sharded/slot_pool.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <utility>

namespace accelerate::detail {

at::Tensor SlotPool::take(std::size_t bytes) {
  auto best = free_.end();
  for (auto slot = free_.begin(); slot != free_.end(); ++slot) {
    if (slot->nbytes() < bytes || slot->nbytes() > 2 * bytes) continue;
    if (best == free_.end() || slot->nbytes() < best->nbytes()) best = slot;
  }
  if (best != free_.end()) {
    at::Tensor slot = std::move(*best);
    free_.erase(best);
    return slot;
  }
  for (const auto& slot : free_) bytes_ -= slot.nbytes();
  free_.clear();
  const c10::InferenceMode no_inference(false);  // other passes use the slot too
  at::Tensor slot = allocate_(bytes);
  bytes_ += slot.nbytes();
  peak_bytes_ = std::max(peak_bytes_, bytes_);
  return slot;
}

void SlotPool::give_back(at::Tensor slot) {
  if (slot.defined()) free_.push_back(std::move(slot));
}

// Two slots are enough: one is filled while the other one is written.
at::Tensor GradientMemory::take_slot(std::size_t bytes) {
  while (!draining_.empty() && (draining_.size() > 1 || draining_.front().use.is_done()))
    wait_for_oldest();
  at::Tensor slot = slots_.take(bytes);
  note_peak();
  return slot;
}

void GradientMemory::give_back_after(Transfer use, at::Tensor slot) {
  draining_.push_back({std::move(slot), {}, std::move(use)});
}

void GradientMemory::keep_during(Transfer use, at::Tensor memory) {
  draining_.push_back({{}, std::move(memory), std::move(use)});
}

void GradientMemory::wait_for_oldest() {
  Draining oldest = std::move(draining_.front());
  draining_.pop_front();
  oldest.use.wait();
  slots_.give_back(std::move(oldest.slot));
}

void GradientMemory::settle() {
  while (!draining_.empty()) wait_for_oldest();
}

void GradientMemory::abandon() noexcept {
  draining_.clear();
}

at::Tensor GradientMemory::allocate(std::int64_t numel, const at::TensorOptions& options) {
  at::Tensor memory = at::empty({numel}, options);
  allocated_bytes_ += memory.nbytes();
  note_peak();
  return memory;
}

void GradientMemory::release(at::Tensor& memory) {
  if (!memory.defined()) return;
  allocated_bytes_ -= memory.nbytes();
  memory = at::Tensor();
}

void GradientMemory::note_peak() {
  peak_bytes_ = std::max(peak_bytes_, bytes());
}

}  // namespace accelerate::detail
