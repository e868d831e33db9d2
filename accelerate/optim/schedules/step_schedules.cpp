#include "accelerate/optim/schedules/step_schedules.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <utility>

#include "accelerate/base/error.h"

namespace accelerate {
namespace {

using std::numbers::pi;

std::vector<double> times(std::vector<double> rates, double factor) {
  for (double& rate : rates) rate *= factor;
  return rates;
}

void require_positive(const char* what, std::int64_t value) {
  if (value >= 1) return;
  throw ConfigError(std::string(what) + " is " + std::to_string(value) + "; allowed is 1 or more");
}

void require_factor(const char* what, double value, bool allowed, const char* range) {
  if (allowed) return;
  throw ConfigError(std::string("LinearLR's ") + what + " is " + c10::str(value) +
                    "; allowed is a fraction of the base rate in " + range);
}

}  // namespace

// --- LambdaLR ------------------------------------------------------------------------------------

LambdaLR::LambdaLR(torch::optim::Optimizer& optimizer, const Factor& factor)
    : LambdaLR(optimizer, std::vector<Factor>(optimizer.param_groups().size(), factor)) {}

LambdaLR::LambdaLR(torch::optim::Optimizer& optimizer, std::vector<Factor> factors)
    : LRScheduler(optimizer), factors_(std::move(factors)) {
  if (factors_.size() != base_lrs().size()) {
    throw ConfigError("LambdaLR was given " + std::to_string(factors_.size()) +
                      " functions for an optimizer with " + std::to_string(base_lrs().size()) +
                      " parameter groups: give one function, or one for each group");
  }
  if (std::any_of(factors_.begin(), factors_.end(), [](const Factor& f) { return !f; })) {
    throw ConfigError("LambdaLR was given an empty function");
  }
  start();
}

std::vector<double> LambdaLR::get_lr() {
  auto rates = base_lrs();
  for (std::size_t i = 0; i < rates.size(); ++i) rates[i] *= factors_[i](last_epoch());
  return rates;
}

// --- StepLR --------------------------------------------------------------------------------------

StepLR::StepLR(torch::optim::Optimizer& optimizer, std::int64_t step_size, double gamma)
    : LRScheduler(optimizer), step_size_(step_size), gamma_(gamma) {
  require_positive("StepLR's step_size", step_size);
  start();
}

std::vector<double> StepLR::get_lr() {
  const bool stays = last_epoch() == 0 || last_epoch() % step_size_ != 0;
  return stays ? current_lrs() : current_lrs_times(gamma_);
}

std::vector<double> StepLR::closed_form_lr() {
  return times(base_lrs(), std::pow(gamma_, static_cast<double>(last_epoch() / step_size_)));
}

void StepLR::visit_state(StateVisitor& field) {
  LRScheduler::visit_state(field);
  field.positive("step_size", step_size_);
  field("gamma", gamma_);
}

// --- MultiStepLR ---------------------------------------------------------------------------------

MultiStepLR::MultiStepLR(torch::optim::Optimizer& optimizer, std::vector<std::int64_t> milestones,
                         double gamma)
    : LRScheduler(optimizer), milestones_(std::move(milestones)), gamma_(gamma) {
  std::sort(milestones_.begin(), milestones_.end());
  start();
}

std::vector<double> MultiStepLR::get_lr() {
  const auto [first, last] = std::equal_range(milestones_.begin(), milestones_.end(), last_epoch());
  return first == last ? current_lrs()
                       : current_lrs_times(std::pow(gamma_, static_cast<double>(last - first)));
}

std::vector<double> MultiStepLR::closed_form_lr() {
  const auto passed = std::upper_bound(milestones_.begin(), milestones_.end(), last_epoch());
  return times(base_lrs(), std::pow(gamma_, static_cast<double>(passed - milestones_.begin())));
}

void MultiStepLR::visit_state(StateVisitor& field) {
  LRScheduler::visit_state(field);
  field("milestones", milestones_);
  field("gamma", gamma_);
}

// --- ExponentialLR -------------------------------------------------------------------------------

ExponentialLR::ExponentialLR(torch::optim::Optimizer& optimizer, double gamma)
    : LRScheduler(optimizer), gamma_(gamma) {
  start();
}

std::vector<double> ExponentialLR::get_lr() {
  return last_epoch() == 0 ? current_lrs() : current_lrs_times(gamma_);
}

std::vector<double> ExponentialLR::closed_form_lr() {
  return times(base_lrs(), std::pow(gamma_, static_cast<double>(last_epoch())));
}

void ExponentialLR::visit_state(StateVisitor& field) {
  LRScheduler::visit_state(field);
  field("gamma", gamma_);
}

// --- LinearLR ------------------------------------------------------------------------------------

LinearLR::LinearLR(torch::optim::Optimizer& optimizer, const LinearLROptions& options)
    : LRScheduler(optimizer), options_(options) {
  const auto [first, last, steps] = options;
  require_factor("start_factor", first, first > 0 && first <= 1, "(0, 1]");
  require_factor("end_factor", last, last >= 0 && last <= 1, "[0, 1]");
  require_positive("LinearLR's total_iters", steps);
  start();
}

std::vector<double> LinearLR::get_lr() {
  const auto [first, last, steps] = options_;
  if (last_epoch() == 0) return current_lrs_times(first);
  if (last_epoch() > steps) return current_lrs();
  const double before =
      static_cast<double>(steps) * first + static_cast<double>(last_epoch() - 1) * (last - first);
  return current_lrs_times(1.0 + (last - first) / before);
}

std::vector<double> LinearLR::closed_form_lr() {
  const auto [first, last, steps] = options_;
  const auto done = static_cast<double>(std::min(steps, last_epoch()));
  return times(base_lrs(), first + (last - first) * done / static_cast<double>(steps));
}

void LinearLR::visit_state(StateVisitor& field) {
  LRScheduler::visit_state(field);
  field("start_factor", options_.start_factor);
  field("end_factor", options_.end_factor);
  field.positive("total_iters", options_.total_iters);
}

// --- CosineAnnealingLR ---------------------------------------------------------------------------

CosineAnnealingLR::CosineAnnealingLR(torch::optim::Optimizer& optimizer, std::int64_t t_max,
                                     double eta_min)
    : LRScheduler(optimizer), t_max_(t_max), eta_min_(eta_min) {
  require_positive("CosineAnnealingLR's t_max", t_max);
  start();
}

std::vector<double> CosineAnnealingLR::get_lr() {
  auto rates = current_lrs();
  if (last_epoch() == 0) return rates;
  const auto t = static_cast<double>(last_epoch());
  const auto length = static_cast<double>(t_max_);
  // Shortly after a minimum, the quotient below would divide by (nearly) zero.
  if ((last_epoch() - 1 - t_max_) % (2 * t_max_) == 0) {
    for (std::size_t i = 0; i < rates.size(); ++i) {
      rates[i] += (base_lrs()[i] - eta_min_) * (1 - std::cos(pi / length)) / 2;
    }
    return rates;
  }
  const double factor = (1 + std::cos(pi * t / length)) / (1 + std::cos(pi * (t - 1) / length));
  for (double& rate : rates) rate = factor * (rate - eta_min_) + eta_min_;
  return rates;
}

std::vector<double> CosineAnnealingLR::closed_form_lr() {
  auto rates = base_lrs();
  const double wave =
      1 + std::cos(pi * static_cast<double>(last_epoch()) / static_cast<double>(t_max_));
  for (double& rate : rates) rate = eta_min_ + (rate - eta_min_) * wave / 2;
  return rates;
}

void CosineAnnealingLR::visit_state(StateVisitor& field) {
  LRScheduler::visit_state(field);
  field.positive("T_max", t_max_);
  field("eta_min", eta_min_);
}

std::vector<double> PerGroup::expand(std::size_t groups, std::string_view option) const {
  if (same_) return std::vector<double>(groups, values_.front());
  if (values_.size() == groups) return values_;
  throw ConfigError(std::string(option) + " has " + std::to_string(values_.size()) +
                    " values for an optimizer with " + std::to_string(groups) +
                    " parameter groups: give one number, or one for each group");
}

}  // namespace accelerate
