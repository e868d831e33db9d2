#include "accelerate/comm/state/gradient_state.h"

#include <algorithm>
#include <mutex>
#include <thread>

#include "accelerate/comm/state/active_loader.h"

namespace accelerate {
namespace {

struct ActiveLoader {
  std::thread::id thread;
  const LoaderProgress* progress;
};

// The loaders of all threads. A pass may end on another thread than it began on.
struct ActiveLoaders {
  std::mutex mutex;
  std::vector<ActiveLoader> loaders;  // Innermost last.
};

ActiveLoaders& active_loaders() {
  static auto* const all = new ActiveLoaders;  // Passes may outlive static objects.
  return *all;
}

// Returns the active loader of `state`, or of this thread if `state` has none.
const LoaderProgress* active(const GradientState& state) {
  return state.in_dataloader() ? state.progress() : detail::loader_of_thread();
}

}  // namespace

void detail::enter_loader(const LoaderProgress* progress) {
  ActiveLoaders& all = active_loaders();
  const std::lock_guard lock(all.mutex);
  all.loaders.push_back({std::this_thread::get_id(), progress});
}

void detail::leave_loader(const LoaderProgress* progress) noexcept {
  ActiveLoaders& all = active_loaders();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.loaders,
                [progress](const ActiveLoader& loader) { return loader.progress == progress; });
}

const LoaderProgress* detail::loader_of_thread() {
  ActiveLoaders& all = active_loaders();
  const std::lock_guard lock(all.mutex);
  const auto found = std::find_if(
      all.loaders.rbegin(), all.loaders.rend(),
      [](const ActiveLoader& loader) { return loader.thread == std::this_thread::get_id(); });
  return found == all.loaders.rend() ? nullptr : found->progress;
}

void GradientState::push(const LoaderProgress* progress) {
  loaders_.push_back(progress);
  detail::enter_loader(progress);
}

void GradientState::remove(const LoaderProgress* progress) noexcept {
  // Searches from the innermost on: loaders leave the stack in the reverse order.
  auto found = std::find(loaders_.rbegin(), loaders_.rend(), progress);
  if (found != loaders_.rend()) loaders_.erase(std::next(found).base());
  detail::leave_loader(progress);
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
  const LoaderProgress* loader = active(*this);
  return loader != nullptr && loader->end_of_dataloader;
}

std::int64_t GradientState::remainder() const {
  const LoaderProgress* loader = active(*this);
  return loader != nullptr ? loader->remainder : -1;
}

}  // namespace accelerate
