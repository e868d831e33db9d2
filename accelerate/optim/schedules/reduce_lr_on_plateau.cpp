#include <algorithm>
#include <string>

#include "accelerate/base/error.h"
#include "accelerate/optim/schedules/metric_scheduler.h"

namespace accelerate {

ReduceLROnPlateau::ReduceLROnPlateau(torch::optim::Optimizer& optimizer,
                                     const ReduceLROnPlateauOptions& options)
    : MetricScheduler(optimizer, {options.mode, options.threshold, options.threshold_mode}),
      options_(options),
      min_lrs_(options.min_lr.expand(base_lrs().size(), "ReduceLROnPlateau's min_lr")) {
  if (options.factor >= 0 && options.factor < 1) return;
  throw ConfigError("ReduceLROnPlateau's factor is " + c10::str(options.factor) +
                    "; allowed is a number from 0 to below 1, by which rates are multiplied");
}

void ReduceLROnPlateau::step(double metric) {
  count_step();
  num_bad_epochs_ = improves(metric) ? 0 : num_bad_epochs_ + 1;
  if (cooldown_counter_ > 0) {
    --cooldown_counter_;
    num_bad_epochs_ = 0;
  }
  if (num_bad_epochs_ > options_.patience) {
    reduce();
    cooldown_counter_ = options_.cooldown;
    num_bad_epochs_ = 0;
  }
  set_lrs(current_lrs());
}

void ReduceLROnPlateau::reduce() {
  auto rates = current_lrs();
  if (rates.size() != min_lrs_.size()) {  // A group was added.
    min_lrs_ = options_.min_lr.expand(rates.size(), "ReduceLROnPlateau's min_lr");
  }
  for (std::size_t i = 0; i < rates.size(); ++i) {
    const double reduced = std::max(rates[i] * options_.factor, min_lrs_[i]);
    if (rates[i] - reduced > options_.eps) rates[i] = reduced;
  }
  set_lrs(rates);
}

void ReduceLROnPlateau::visit_state(StateVisitor& field) {
  MetricScheduler::visit_state(field);
  field("factor", options_.factor);
  field.per_group("min_lrs", min_lrs_);
  field("patience", options_.patience);
  field("cooldown", options_.cooldown);
  field("eps", options_.eps);
  field("cooldown_counter", cooldown_counter_);
  field("num_bad_epochs", num_bad_epochs_);
}

}  // namespace accelerate
