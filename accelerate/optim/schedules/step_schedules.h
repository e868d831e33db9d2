// The schedules of torch.optim.lr_scheduler that take a few numbers. Except LambdaLR, each computes
// a step's rates from the previous rates, by PyTorch's recurrences in PyTorch's order of
// operations. So several can be stepped together, and rates that were set by hand stay in force. In
// formulas `t` is last_epoch(), and `base` is the optimizer's rate before any schedule.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "accelerate/optim/lr_scheduler.h"

namespace accelerate {

// An option with one number for all parameter groups, or one number per group.

class PerGroup {
 public:
  PerGroup(double value) : values_{value}, same_(true) {}               // NOLINT: 0.1
  PerGroup(std::vector<double> values) : values_(std::move(values)) {}  // NOLINT: {0.1, 0.2}
  PerGroup(std::initializer_list<double> values) : values_(values) {}

  /// Returns one number for each of `groups` groups. Throws ConfigError if the option has another
  /// number of values; the error names `option`.
  [[nodiscard]] std::vector<double> expand(std::size_t groups, std::string_view option) const;
  /// Whether it is one number for all groups.
  [[nodiscard]] bool same_for_all() const { return same_; }
  /// The values as they were given.
  [[nodiscard]] const std::vector<double>& values() const { return values_; }

 private:
  std::vector<double> values_;
  bool same_ = false;
};

/// Sets the rates to base · factor(t).
class LambdaLR final : public LRScheduler {
 public:
  using Factor = std::function<double(std::int64_t step)>;

  /// One function for all parameter groups.
  LambdaLR(torch::optim::Optimizer& optimizer, const Factor& factor);
  /// One function per parameter group. Throws ConfigError if their number differs.
  LambdaLR(torch::optim::Optimizer& optimizer, std::vector<Factor> factors);

 private:
  std::vector<double> get_lr() override;

  std::vector<Factor> factors_;
};

/// Multiplies rates by `gamma` every `step_size` steps: base · gamma^⌊t / step_size⌋.
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

/// Multiplies rates by `gamma` at each of `milestones`; a milestone given twice counts twice.
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

/// Multiplies rates by `gamma` in every step: base · gamma^t.
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
  double start_factor = 1.0 / 3;  ///< Factor of the base rate at step 0; in (0, 1].
  double end_factor = 1.0;        ///< Factor from step total_iters on; in [0, 1].
  std::int64_t total_iters = 5;   ///< Steps between the two; at least 1.
};

/// Changes rates linearly from base · start_factor to base · end_factor.
class LinearLR final : public LRScheduler {
 public:
  /// Throws ConfigError if an option is out of range.
  explicit LinearLR(torch::optim::Optimizer& optimizer, const LinearLROptions& options = {});

 private:
  std::vector<double> get_lr() override;
  std::vector<double> closed_form_lr() override;
  void visit_state(StateVisitor& field) override;

  LinearLROptions options_;
};

/// Follows half a cosine from base to `eta_min` in `t_max` steps, then back, and so on: eta_min +
/// (base − eta_min) · (1 + cos(π t / t_max)) / 2. Source: Loshchilov and Hutter, "SGDR", 2016,
/// without its restarts.
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
