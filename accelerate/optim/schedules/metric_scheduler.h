// Schedules that watch a number, such as a validation loss, and change the rates by its course.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "accelerate/optim/lr_scheduler.h"
#include "accelerate/optim/schedules/step_schedules.h"

namespace accelerate {

/// Whether small or large metrics are good.
enum class MetricMode { min, max };
/// Whether an improvement is measured relative to the best value or as an absolute difference.
enum class ThresholdMode { rel, abs };

template <>
struct EnumTexts<MetricMode> {
  static constexpr std::array<std::string_view, 2> kTexts = {"min", "max"};
};
template <>
struct EnumTexts<ThresholdMode> {
  static constexpr std::array<std::string_view, 2> kTexts = {"rel", "abs"};
};

/// What ReduceLROnPlateau and GreedyLR share: step(metric), and the best metric so far. A NaN
/// metric is never an improvement.
class MetricScheduler : public LRScheduler {
 public:
  void step() override;
  void step(double metric) override = 0;
  [[nodiscard]] bool needs_metric() const override { return true; }
  /// The best metric so far; infinite before the first one.
  [[nodiscard]] double best() const { return best_; }

 protected:
  /// An improvement is better than the best metric by `threshold`, or by that fraction of it.
  struct Goal {
    MetricMode mode;
    double threshold;
    ThresholdMode threshold_mode;
  };

  MetricScheduler(torch::optim::Optimizer& optimizer, const Goal& goal);
  std::vector<double> get_lr() override { return current_lrs(); }
  void visit_state(StateVisitor& field) override;
  /// Whether `metric` is an improvement. If so, it becomes the best so far.
  [[nodiscard]] bool improves(double metric);
  void forget_best();

 private:
  Goal goal_;
  double best_ = 0;
};

struct ReduceLROnPlateauOptions {
  MetricMode mode = MetricMode::min;
  double factor = 0.1;         ///< A reduction multiplies rates by it; below 1.
  std::int64_t patience = 10;  ///< Steps without improvement that are tolerated.
  double threshold = 1e-4;     ///< By how much an improvement must be better.
  ThresholdMode threshold_mode = ThresholdMode::rel;
  std::int64_t cooldown = 0;  ///< Steps after a reduction in which nothing is counted.
  PerGroup min_lr = 0.0;      ///< Rates do not go below it.
  double eps = 1e-8;          ///< Smaller changes are not made.
};

/// Multiplies rates by `factor` if the metric has not improved for more than `patience` steps.
class ReduceLROnPlateau final : public MetricScheduler {
 public:
  /// Throws ConfigError unless 0 ≤ factor < 1.
  explicit ReduceLROnPlateau(torch::optim::Optimizer& optimizer,
                             const ReduceLROnPlateauOptions& options = {});
  void step(double metric) override;
  using MetricScheduler::step;

 private:
  void visit_state(StateVisitor& field) override;
  void reduce();

  ReduceLROnPlateauOptions options_;
  std::vector<double> min_lrs_;
  std::int64_t cooldown_counter_ = 0, num_bad_epochs_ = 0;
};

struct GreedyLROptions {
  MetricMode mode = MetricMode::min;
  double factor = 0.95;        ///< Rates are multiplied or divided by it; below 1.
  std::int64_t patience = 10;  ///< Steps in a row, good or bad, before a change.
  double threshold = 1e-6;     ///< By how much an improvement must be better.
  ThresholdMode threshold_mode = ThresholdMode::abs;
  std::int64_t cooldown = 0;  ///< Steps after a reduction in which nothing is counted.
  std::int64_t warmup = 0;    ///< Steps after an increase in which nothing is counted.
  PerGroup min_lr = 1e-3;     ///< Rates do not go below it.
  PerGroup max_lr = 1.0;      ///< Rates do not go above it.
  double eps = 1e-8;          ///< Smaller changes are not made.
  bool smooth = false;        ///< Watch the metric's mean over the last window_size steps.
  std::int64_t window_size = 50;
  /// Reductions at the lowest rates before everything begins anew.
  std::int64_t reset_start = 500;
};

/// Divides rates by `factor` while the metric improves, and multiplies them by it while it does
/// not. Source: "GreedyLR", arXiv 2512.14527, as implemented in transformers.
class GreedyLR final : public MetricScheduler {
 public:
  /// Throws ConfigError unless 0 < factor < 1 and window_size ≥ 1.
  explicit GreedyLR(torch::optim::Optimizer& optimizer, const GreedyLROptions& options = {});
  void step(double metric) override;
  using MetricScheduler::step;
  /// As LRScheduler::load_state_dict. Also writes the state's rates into the optimizer, as the
  /// original does.
  void load_state_dict(const SchedulerState& state) override;

 private:
  void visit_state(StateVisitor& field) override;
  [[nodiscard]] double smoothed(double metric);
  void count(bool good);
  void reduce();
  void increase();
  void reset();

  GreedyLROptions options_;
  std::vector<double> min_lrs_, max_lrs_, init_lrs_;
  std::int64_t cooldown_counter_ = 0, warmup_counter_ = 0;
  std::int64_t num_bad_epochs_ = 0, num_good_epochs_ = 0;
  std::int64_t resets_in_;
  std::vector<double> window_;
  double window_sum_ = 0;
};

}  // namespace accelerate
