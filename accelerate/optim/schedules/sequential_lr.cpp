#include "accelerate/optim/schedules/sequential_lr.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "accelerate/base/error.h"

namespace accelerate {

SequentialLR::SequentialLR(torch::optim::Optimizer& optimizer, Schedulers schedulers,
                           std::vector<std::int64_t> milestones)
    : LRScheduler(optimizer),
      schedulers_(std::move(schedulers)),
      milestones_(std::move(milestones)) {
  require_a_sequence();
  rewind();
  start();
}

void SequentialLR::require_a_sequence() const {
  if (schedulers_.size() != milestones_.size() + 1) {
    throw ConfigError("SequentialLR was given " + std::to_string(schedulers_.size()) +
                      " schedules and " + std::to_string(milestones_.size()) +
                      " milestones: it needs one milestone between each two schedules");
  }
  for (std::size_t i = 0; i < milestones_.size(); ++i) {
    if (milestones_[i] >= 0 && (i == 0 || milestones_[i] > milestones_[i - 1])) continue;
    throw ConfigError("SequentialLR's milestone " + std::to_string(i) + " is " +
                      std::to_string(milestones_[i]) +
                      ": milestones are steps from the start, each later than the one before");
  }
  for (std::size_t i = 0; i < schedulers_.size(); ++i) {
    const auto& scheduler = schedulers_[i];
    const char* fault = scheduler == nullptr                    ? "is empty"
                        : scheduler->needs_metric()             ? "needs a metric in every step"
                        : scheduler->optimizer() != optimizer() ? "is of another optimizer"
                                                                : nullptr;
    if (fault == nullptr) continue;
    throw ConfigError("schedule " + std::to_string(i) + " of a SequentialLR " + fault +
                      ": allowed are schedules of its own optimizer that step by themselves");
  }
}

std::size_t SequentialLR::active() const {
  const auto next = std::upper_bound(milestones_.begin(), milestones_.end(), last_epoch_);
  return static_cast<std::size_t>(next - milestones_.begin());
}

void SequentialLR::rewind() {
  LRScheduler::rewind();
  for (const auto& scheduler : schedulers_) scheduler->rewind();
}

void SequentialLR::start() {
  last_epoch_ = 0;
  step_count_ = 1;
  set_lrs(base_lrs());
  schedulers_[active()]->start();
  last_lrs_ = current_lrs();
}

void SequentialLR::restart() {
  last_epoch_ = 0;
  schedulers_[active()]->restart();
  last_lrs_ = current_lrs();
}

void SequentialLR::step() {
  count_step();
  const std::size_t now = active();
  const bool begins = now > 0 && milestones_[now - 1] == last_epoch_;
  begins ? schedulers_[now]->restart() : schedulers_[now]->step();
  last_lrs_ = schedulers_[now]->last_lrs_;
}

void SequentialLR::visit_state(StateVisitor& field) {
  field("last_epoch", last_epoch_);
  field.per_group("_last_lr", last_lrs_);
  field.fixed_length("_milestones", milestones_);
  field.nested("_schedulers", schedulers_.size(),
               [this](std::size_t i, StateVisitor& inner) { schedulers_[i]->visit_state(inner); });
}

}  // namespace accelerate
