#include "accelerate/optim/schedules/metric_scheduler.h"

#include <limits>

#include "accelerate/base/error.h"

namespace accelerate {

MetricScheduler::MetricScheduler(torch::optim::Optimizer& optimizer, const Goal& goal)
    : LRScheduler(optimizer, detail::group_rates(optimizer)), goal_(goal) {
  last_epoch_ = 0;
  forget_best();
}

void MetricScheduler::step() {
  throw UsageError(
      "this schedule watches a metric and was stepped without one: call step(metric), usually with "
      "the validation loss, after each evaluation");
}

void MetricScheduler::forget_best() {
  const double worst = std::numeric_limits<double>::infinity();
  best_ = goal_.mode == MetricMode::min ? worst : -worst;
}

bool MetricScheduler::improves(double metric) {
  const auto [mode, threshold, threshold_mode] = goal_;
  const bool relative = threshold_mode == ThresholdMode::rel;
  const double step = mode == MetricMode::min ? -threshold : threshold;
  const double bar = relative ? best_ * (1.0 + step) : best_ + step;
  const bool better = mode == MetricMode::min ? metric < bar : metric > bar;
  if (better) best_ = metric;
  return better;
}

void MetricScheduler::visit_state(StateVisitor& field) {
  field("last_epoch", last_epoch_);
  field.per_group("_last_lr", last_lrs_);
  field("mode", goal_.mode);
  field("threshold", goal_.threshold);
  field("threshold_mode", goal_.threshold_mode);
  field("best", best_);
}

}  // namespace accelerate
