// One schedule after the other.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "accelerate/optim/lr_scheduler.h"

namespace accelerate {

/// schedulers[0] up to milestones[0], from there schedulers[1] (at its step 0) up to milestones[1],
/// and so on. Unlike in PyTorch, sequences may be inside sequences.
class SequentialLR final : public LRScheduler {
 public:
  using Schedulers = std::vector<std::shared_ptr<LRScheduler>>;

  /// Takes the optimizer's rates back to those before any schedule and starts the first one.
  /// Throws ConfigError unless there are one milestone less than schedules, each at least 0 and
  /// larger than the one before, and when a schedule needs a metric or is of another optimizer.
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
  // The schedule in charge of step last_epoch().
  [[nodiscard]] std::size_t active() const;

  Schedulers schedulers_;
  std::vector<std::int64_t> milestones_;
};

}  // namespace accelerate
