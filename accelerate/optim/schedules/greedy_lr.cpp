#include <algorithm>
#include <string>

#include "accelerate/base/error.h"
#include "accelerate/optim/schedules/metric_scheduler.h"

namespace accelerate {

GreedyLR::GreedyLR(torch::optim::Optimizer& optimizer, const GreedyLROptions& options)
    : MetricScheduler(optimizer, {options.mode, options.threshold, options.threshold_mode}),
      options_(options),
      min_lrs_(options.min_lr.expand(base_lrs().size(), "GreedyLR's min_lr")),
      max_lrs_(options.max_lr.expand(base_lrs().size(), "GreedyLR's max_lr")),
      init_lrs_(current_lrs()),
      resets_in_(options.reset_start) {
  if (!(options.factor > 0 && options.factor < 1)) {
    throw ConfigError("GreedyLR's factor is " + c10::str(options.factor) +
                      "; allowed is a number between 0 and 1, by which rates are multiplied or "
                      "divided");
  }
  if (options.window_size < 1) {
    throw ConfigError("GreedyLR's window_size is " + std::to_string(options.window_size) +
                      "; allowed is 1 or more steps");
  }
}

void GreedyLR::step(double metric) {
  const double watched = options_.smooth ? smoothed(metric) : metric;
  count_step();
  std::int64_t& pause = cooldown_counter_ > 0 ? cooldown_counter_ : warmup_counter_;
  if (pause > 0) {
    --pause;
    num_bad_epochs_ = num_good_epochs_ = 0;
  } else {
    count(improves(watched));
  }
  set_lrs(current_lrs());
}

double GreedyLR::smoothed(double metric) {
  window_.push_back(metric);
  window_sum_ += metric;
  if (std::ssize(window_) > options_.window_size) {
    window_sum_ -= window_.front();
    window_.erase(window_.begin());
  }
  return window_sum_ / static_cast<double>(window_.size());
}

void GreedyLR::count(bool good) {
  num_good_epochs_ = good ? num_good_epochs_ + 1 : 0;
  num_bad_epochs_ = good ? 0 : num_bad_epochs_ + 1;
  if (num_good_epochs_ > options_.patience) {
    increase();
    warmup_counter_ = options_.warmup;
    num_good_epochs_ = 0;
  } else if (num_bad_epochs_ > options_.patience) {
    reduce();
    cooldown_counter_ = options_.cooldown;  // Also after a reset, as upstream does.
    num_bad_epochs_ = 0;
  }
}

void GreedyLR::reduce() {
  auto rates = current_lrs();
  bool all_at_min = true;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    const double reduced = std::max(rates[i] * options_.factor, min_lrs_.at(i));
    if (rates[i] - reduced > options_.eps) rates[i] = reduced;
    all_at_min = all_at_min && rates[i] <= min_lrs_[i];
  }
  set_lrs(rates);
  if (all_at_min && --resets_in_ <= 0) reset();
}

void GreedyLR::increase() {
  auto rates = current_lrs();
  for (std::size_t i = 0; i < rates.size(); ++i) {
    const double increased = std::min(rates[i] / options_.factor, max_lrs_.at(i));
    if (increased - rates[i] > options_.eps) rates[i] = increased;
  }
  set_lrs(rates);
  resets_in_ = options_.reset_start;
}

void GreedyLR::reset() {
  set_lrs(init_lrs_);
  forget_best();
  num_bad_epochs_ = num_good_epochs_ = 0;
  cooldown_counter_ = warmup_counter_ = 0;
  resets_in_ = options_.reset_start;
  window_.clear();
  window_sum_ = 0;
}

void GreedyLR::visit_state(StateVisitor& field) {
  MetricScheduler::visit_state(field);
  field("factor", options_.factor);
  field("patience", options_.patience);
  field("cooldown", options_.cooldown);
  field("warmup", options_.warmup);
  field("eps", options_.eps);
  field.per_group("min_lrs", min_lrs_);
  field.per_group("max_lrs", max_lrs_);
  field.per_group("_init_lrs", init_lrs_);
  field("cooldown_counter", cooldown_counter_);
  field("warmup_counter", warmup_counter_);
  field("num_bad_epochs", num_bad_epochs_);
  field("num_good_epochs", num_good_epochs_);
  field("reset_start", resets_in_);
  field("reset_start_original", options_.reset_start);
  const bool smooth = field.decides("smooth", options_.smooth);
  field.positive("window_size", options_.window_size);
  if (!smooth) return;
  field.inside("_streaming_avg", [this](StateVisitor& inner) {
    inner("window_size", options_.window_size);
    inner("values", window_);
    inner("sum", window_sum_);
  });
}

void GreedyLR::load_state_dict(const SchedulerState& state) {
  MetricScheduler::load_state_dict(state);
  set_lrs(get_last_lr());
}

}  // namespace accelerate
