// The schedules of torch.optim.lr_scheduler that take a few numbers. Except for LambdaLR each one
// computes a step's rates from the rates before it, by PyTorch's own recurrences and in its order
// of operations, so several can be stepped together and rates set by hand stay in force. `t` is
// last_epoch(), `base` the optimizer's rate before any schedule.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "accelerate/optim/lr_scheduler.h"

namespace accelerate {

/// base · factor(t).
class LambdaLR final : public LRScheduler {
 public:
  using Factor = std::function<double(std::int64_t step)>;

  /// One function for all parameter groups.
  LambdaLR(torch::optim::Optimizer& optimizer, const Factor& factor);
  /// One for each. Throws ConfigError when there are not as many.
  LambdaLR(torch::optim::Optimizer& optimizer, std::vector<Factor> factors);

 private:
  std::vector<double> get_lr() override;

  std::vector<Factor> factors_;
};

/// Times `gamma` every `step_size` steps: base · gamma^⌊t / step_size⌋.
class StepLR final : public LRScheduler {
 public:
  /// Throws ConfigError unless step_size ≥ 1.
  StepLR(torch::optim::Optimizer& optimizer, std::int64_t step_size, double gamma = 0.1);

 private:
  std::vector<double> get_lr() override;
  std::vector<double> closed_form_lr() override;
  void visit_state(StateVisitor& field) override;

  std::int64_t step_size_;
  double gamma_;
};

/// Times `gamma` at each of `milestones`; a milestone given twice counts twice.
class MultiStepLR final : public LRScheduler {
 public:
  MultiStepLR(torch::optim::Optimizer& optimizer, std::vector<std::int64_t> milestones,
              double gamma = 0.1);

 private:
  std::vector<double> get_lr() override;
  std::vector<double> closed_form_lr() override;
  void visit_state(StateVisitor& field) override;

  std::vector<std::int64_t> milestones_;  // Sorted.
  double gamma_;
};

/// Times `gamma` in every step: base · gamma^t.
class ExponentialLR final : public LRScheduler {
 public:
  ExponentialLR(torch::optim::Optimizer& optimizer, double gamma);

 private:
  std::vector<double> get_lr() override;
  std::vector<double> closed_form_lr() override;
  void visit_state(StateVisitor& field) override;

  double gamma_;
};

struct LinearLROptions {
  double start_factor = 1.0 / 3;  ///< Of the base rate at step 0; in (0, 1].
  double end_factor = 1.0;        ///< Of the base rate from step total_iters on; in [0, 1].
  std::int64_t total_iters = 5;   ///< Steps from one to the other, at least 1.
};

/// From base · start_factor to base · end_factor in a straight line.
class LinearLR final : public LRScheduler {
 public:
  /// Throws ConfigError when an option is out of its range.
  explicit LinearLR(torch::optim::Optimizer& optimizer, const LinearLROptions& options = {});

 private:
  std::vector<double> get_lr() override;
  std::vector<double> closed_form_lr() override;
  void visit_state(StateVisitor& field) override;

  LinearLROptions options_;
};

/// Half a cosine from base to `eta_min` in `t_max` steps, then back, and so on:
/// eta_min + (base − eta_min) · (1 + cos(π t / t_max)) / 2.
/// Source: Loshchilov and Hutter, "SGDR", 2016, without its restarts.
class CosineAnnealingLR final : public LRScheduler {
 public:
  /// Throws ConfigError unless t_max ≥ 1.
  CosineAnnealingLR(torch::optim::Optimizer& optimizer, std::int64_t t_max, double eta_min = 0.0);

 private:
  std::vector<double> get_lr() override;
  std::vector<double> closed_form_lr() override;
  void visit_state(StateVisitor& field) override;

  std::int64_t t_max_;
  double eta_min_;
};

}  // namespace accelerate
