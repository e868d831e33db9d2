#include "accelerate/optim/schedules/one_cycle_lr.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <string_view>
#include <tuple>

#include "accelerate/base/error.h"
#include "accelerate/optim/optimizer_fields.h"

namespace accelerate {
namespace {

std::int64_t positive(const char* what, std::int64_t value) {
  if (value >= 1) return value;
  throw ConfigError(std::string("OneCycleLR's ") + what + " is " + std::to_string(value) +
                    "; allowed is 1 or more");
}

std::int64_t total_steps_of(const OneCycleLROptions& options) {
  if (options.total_steps) return positive("total_steps", *options.total_steps);
  if (options.epochs && options.steps_per_epoch) {
    return positive("epochs", *options.epochs) *
           positive("steps_per_epoch", *options.steps_per_epoch);
  }
  throw ConfigError(
      "OneCycleLR needs total_steps, or epochs and steps_per_epoch, and was given neither");
}

double fraction_of(const OneCycleLROptions& options) {
  if (options.pct_start >= 0 && options.pct_start <= 1) return options.pct_start;
  throw ConfigError("OneCycleLR's pct_start is " + c10::str(options.pct_start) +
                    "; allowed is a fraction of the steps in [0, 1]");
}

double divisor(const char* what, double value) {
  if (value > 0) return value;
  throw ConfigError(std::string("OneCycleLR's ") + what + " is " + c10::str(value) +
                    "; allowed is a number above 0, by which a rate is divided");
}

void require_momentum(torch::optim::Optimizer& optimizer) {
  if (!detail::momentum_field(optimizer).empty()) return;
  throw ConfigError(
      "OneCycleLR is to cycle the momentum, and this optimizer has none; SGD, RMSprop, Muon, Adam, "
      "AdamW, Lion and ScheduleFreeAdamW have. Pass .cycle_momentum = false");
}

}  // namespace

OneCycleLR::OneCycleLR(torch::optim::Optimizer& optimizer, const OneCycleLROptions& options)
    : LRScheduler(optimizer),
      total_steps_(total_steps_of(options)),
      pct_start_(fraction_of(options)),
      three_phase_(options.three_phase),
      cycle_momentum_(options.cycle_momentum),
      strategy_(options.anneal_strategy) {
  const std::size_t groups = optimizer.param_groups().size();
  max_lrs_ = options.max_lr.expand(groups, "OneCycleLR's max_lr");
  if (cycle_momentum_) {
    require_momentum(optimizer);
    max_momenta_ = options.max_momentum.expand(groups, "OneCycleLR's max_momentum");
    base_momenta_ = options.base_momentum.expand(groups, "OneCycleLR's base_momentum");
  }
  std::vector<double> first_rates;
  for (const double peak : max_lrs_) {
    first_rates.push_back(peak / divisor("div_factor", options.div_factor));
    min_lrs_.push_back(first_rates.back() / divisor("final_div_factor", options.final_div_factor));
  }
  set_base_lrs(first_rates);
  start();
}

OneCycleLR::Position OneCycleLR::position() const {
  struct Phase {
    double end;
    int from, to;
  };
  const auto total = static_cast<double>(total_steps_);
  std::vector<Phase> phases = {{pct_start_ * total - 1, 0, 1}};
  if (three_phase_) phases.push_back({2 * pct_start_ * total - 2, 1, 0});
  phases.push_back({total - 1, three_phase_ ? 0 : 1, 2});

  const auto step = static_cast<double>(last_epoch());
  double begin = 0;
  std::size_t now = 0;
  while (now + 1 < phases.size() && step > phases[now].end) begin = phases[now++].end;
  // A phase of length zero is over when it begins (PyTorch divides by zero there).
  const double length = phases[now].end - begin;
  return {length == 0 ? 1.0 : (step - begin) / length, phases[now].from, phases[now].to};
}

double OneCycleLR::anneal(double from, double to, double fraction) const {
  if (strategy_ == AnnealStrategy::linear) return (to - from) * fraction + from;
  return to + (from - to) / 2.0 * (std::cos(std::numbers::pi * fraction) + 1);
}

std::vector<double> OneCycleLR::get_lr() {
  const Position where = position();
  std::vector<double> rates;
  for (std::size_t i = 0; i < max_lrs_.size(); ++i) {
    const double ends[] = {base_lrs()[i], max_lrs_[i], min_lrs_[i]};
    rates.push_back(anneal(ends[where.from], ends[where.to], where.fraction));
  }
  if (cycle_momentum_) set_momenta(where);
  return rates;
}

void OneCycleLR::set_momenta(const Position& where) {
  auto& groups = optimizer()->param_groups();
  const auto count = std::min({max_momenta_.size(), base_momenta_.size(), groups.size()});
  for (std::size_t i = 0; i < count; ++i) {
    const double ends[] = {max_momenta_[i], base_momenta_[i], max_momenta_[i]};
    detail::set_group_momentum(groups[i], anneal(ends[where.from], ends[where.to], where.fraction));
  }
}

std::vector<double> OneCycleLR::get_last_momentum() const {
  std::vector<double> momenta;
  if (!cycle_momentum_) return momenta;
  for (const auto& group : optimizer()->param_groups()) {
    momenta.push_back(detail::group_momentum(group));
  }
  return momenta;
}

void OneCycleLR::visit_state(StateVisitor& field) {
  LRScheduler::visit_state(field);
  field.positive("total_steps", total_steps_);
  field("_anneal_func_type", strategy_);
  field("cycle_momentum", cycle_momentum_);
  // PyTorch keeps these in the optimizer's groups, or only as the phases that follow from them.
  field.optional("pct_start", pct_start_);
  field.optional("three_phase", three_phase_);
  const std::size_t groups = base_lrs().size();
  field.optional_per_group("max_lrs", max_lrs_, groups);
  field.optional_per_group("min_lrs", min_lrs_, groups);
  field.optional_per_group("max_momentums", max_momenta_, groups);
  field.optional_per_group("base_momentums", base_momenta_, groups);
}

}  // namespace accelerate

namespace accelerate::detail {
namespace {

using torch::optim::OptimizerOptions;

// Calls `use` for the option "momentum", and for the first of the option "betas".
template <typename Use>
struct MomentumField {
  const Use& use;
  bool found = false;

  void operator()(const char* name, double& value) {
    if (std::string_view(name) == "momentum") give(name, value);
  }
  void operator()(const char* name, std::tuple<double, double>& value) {
    if (std::string_view(name) == "betas") give(name, std::get<0>(value));
  }
  template <typename Other>
  void operator()(const char*, Other&) {}

 private:
  void give(const char* name, double& value) {
    found = true;
    use(name, value);
  }
};

// Sets the option "betas".
struct BetasField {
  std::tuple<double, double> betas;

  void operator()(const char* name, std::tuple<double, double>& value) const {
    if (std::string_view(name) == "betas") value = betas;
  }
  template <typename Other>
  void operator()(const char*, Other&) const {}
};

// Shows `field` every option.
template <typename Field>
void visit_options(OptimizerOptions& options, Field& field) {
  any_optimizer_kind([&]<typename Kind>(Kind) {
    auto* typed = dynamic_cast<typename Kind::Options*>(&options);
    if (typed != nullptr) Kind::options(*typed, field);
    return typed != nullptr;
  });
}

// Calls `use` with the name and value of what a schedule may cycle. Returns whether there is any.
template <typename Use>
bool visit_momentum(OptimizerOptions& options, const Use& use) {
  MomentumField<Use> field{use};
  visit_options(options, field);
  return field.found;
}

}  // namespace

std::string momentum_field(torch::optim::Optimizer& optimizer) {
  std::string found;
  visit_momentum(optimizer.defaults(), [&](const char* name, double&) { found = name; });
  return found;
}

double group_momentum(const torch::optim::OptimizerParamGroup& group) {
  double found = 0;
  // Only reads: LibTorch's typed accessors need a mutable object.
  visit_momentum(const_cast<OptimizerOptions&>(group.options()),
                 [&](const char*, double& value) { found = value; });
  return found;
}

void set_group_momentum(torch::optim::OptimizerParamGroup& group, double momentum) {
  visit_momentum(group.options(), [&](const char*, double& value) { value = momentum; });
}

void set_group_betas(torch::optim::OptimizerParamGroup& group, std::tuple<double, double> betas) {
  BetasField field{betas};
  visit_options(group.options(), field);
}

}  // namespace accelerate::detail
