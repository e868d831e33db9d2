// Runs one schedule after the other.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "accelerate/optim/lr_scheduler.h"

namespace accelerate {

/// Runs schedulers[0] up to milestones[0], then schedulers[1] (from its step 0) up to
/// milestones[1], and so on. Unlike in PyTorch, a sequence may contain sequences.
class SequentialLR final : public LRScheduler {
 public:
  using Schedulers = std::vector<std::shared_ptr<LRScheduler>>;

  /// Resets the optimizer's rates to the rates before any schedule and starts the first schedule.
  /// Throws ConfigError unless there is one milestone less than schedules, and each milestone is at
  /// least 0 and larger than the one before. Also throws it if a schedule needs a metric or has
  /// another optimizer.
  SequentialLR(torch::optim::Optimizer& optimizer, Schedulers schedulers,
               std::vector<std::int64_t> milestones);

  void step() override;
  using LRScheduler::step;

 private:
  std::vector<double> get_lr() override { return current_lrs(); }
  void visit_state(StateVisitor& field) override;
  void start() override;
  void rewind() override;
  void restart() override;
  void require_a_sequence() const;
  // Returns the index of the schedule for step last_epoch().
  [[nodiscard]] std::size_t active() const;

  Schedulers schedulers_;
  std::vector<std::int64_t> milestones_;
};

}  // namespace accelerate
