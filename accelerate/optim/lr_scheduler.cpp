#include "accelerate/optim/lr_scheduler.h"

#include <c10/util/Type.h>

#include <string>
#include <typeinfo>
#include <utility>

#include "accelerate/base/error.h"

namespace accelerate {
namespace {

std::string name_of(const LRScheduler& scheduler) {
  return c10::demangle(typeid(scheduler).name());
}

}  // namespace

LRScheduler::LRScheduler(torch::optim::Optimizer& optimizer)
    : optimizer_(&optimizer),
      rates_(detail::initial_rates_of(optimizer)),
      base_lrs_(rates_->initial),
      last_lrs_(rates_->last_set) {}

LRScheduler::LRScheduler(torch::optim::Optimizer& optimizer, std::vector<double> rates)
    : optimizer_(&optimizer), base_lrs_(rates), last_lrs_(std::move(rates)) {}

void LRScheduler::start() {
  last_epoch_ = 0;
  step_count_ = 1;
  set_lrs(get_lr());
}

void LRScheduler::restart() {
  last_epoch_ = 0;
  set_lrs(closed_form_lr());
}

void LRScheduler::step() {
  if (last_epoch_ < 0) {
    throw UsageError(name_of(*this) +
                     " was not started: call start() at the end of its constructor");
  }
  if (const auto end = total_steps(); end && last_epoch_ >= *end) {
    throw UsageError(name_of(*this) + " has total_steps = " + std::to_string(*end) +
                     ", and was stepped once more. Set total_steps to the training's steps times "
                     "the number of processes. With scheduler_step = SchedulerStep::once, set it "
                     "to the training's steps");
  }
  count_step();
  set_lrs(get_lr());
}

void LRScheduler::step(double /*metric*/) {
  throw UsageError(name_of(*this) + " does not watch a metric: call step() without an argument");
}

std::vector<double> LRScheduler::current_lrs_times(double factor) const {
  auto rates = current_lrs();
  for (double& rate : rates) rate *= factor;
  return rates;
}

void LRScheduler::set_lrs(const std::vector<double>& rates) {
  detail::set_group_rates(*optimizer_, rates);
  last_lrs_ = rates;
  if (rates_ != nullptr) rates_->last_set = rates;
}

void LRScheduler::set_base_lrs(const std::vector<double>& rates) {
  base_lrs_ = rates;
  if (rates_ != nullptr) rates_->initial = rates;
}

void LRScheduler::visit_state(StateVisitor& field) {
  visit_progress(field);
  field.per_group("base_lrs", base_lrs_);
  field.per_group("_last_lr", last_lrs_);
}

void LRScheduler::visit_progress(StateVisitor& field) {
  field("last_epoch", last_epoch_);
  field("_step_count", step_count_);
}

SchedulerState LRScheduler::state_dict() const {
  SchedulerState state;
  StateVisitor visitor(StateVisitor::Mode::save, state);
  const_cast<LRScheduler*>(this)->visit_state(visitor);  // It only reads while saving.
  return state;
}

void LRScheduler::load_state_dict(const SchedulerState& state) {
  check_state_dict(state);
  SchedulerState copy = state;
  StateVisitor visitor(StateVisitor::Mode::load, copy);
  visit_state(visitor);
}

void LRScheduler::check_state_dict(const SchedulerState& state) const {
  SchedulerState copy = state;
  StateVisitor visitor(StateVisitor::Mode::check, copy);
  const_cast<LRScheduler*>(this)->visit_state(visitor);  // It only compares while checking.
}

}  // namespace accelerate
