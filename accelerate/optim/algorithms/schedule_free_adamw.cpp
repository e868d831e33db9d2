#include "accelerate/optim/algorithms/schedule_free_adamw.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_addcmul.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sqrt.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/div.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>

#include "accelerate/base/error.h"
#include "accelerate/optim/algorithms/algorithm_impl.h"

namespace accelerate {
namespace {

using FreeOptions = ScheduleFreeAdamWOptions;

constexpr const char* kFreeName = "ScheduleFreeAdamW";

// The tensors of one step; the lists run in parallel.
struct FreeTensors {
  std::vector<at::Tensor> y, gradients, z, second;
};

// The numbers of one step, the same for all parameters of a group.
struct FreeRates {
  double lr;                ///< After warm-up scaling.
  double weight;            ///< The share of this step in the average, between 0 and 1.
  double bias_correction2;  ///< For the second moment.
};

// Counts the step in `options` and returns its numbers.
FreeRates begin_free_step(FreeOptions& options) {
  const auto count = static_cast<double>(options.k() + 1);
  const auto warmup = static_cast<double>(options.warmup_steps());
  const double lr = options.lr() * (count <= warmup ? count / warmup : 1.0);
  options.scheduled_lr(lr);
  options.lr_max(std::max(lr, options.lr_max()));
  const double weight =
      std::pow(count, options.r()) * std::pow(options.lr_max(), options.weight_lr_power());
  options.weight_sum(options.weight_sum() + weight);
  options.k(options.k() + 1);
  return {lr, options.weight_sum() == 0 ? 0.0 : weight / options.weight_sum(),
          1 - std::pow(std::get<1>(options.betas()), count)};
}

// Returns `numerators` / `denominators`. On the CPU reuses the memory of `denominators`: fresh
// memory would cost more than the division.
std::vector<at::Tensor> quotients_of(const std::vector<at::Tensor>& numerators,
                                     const std::vector<at::Tensor>& denominators) {
  if (!denominators.front().is_cpu()) return at::_foreach_div(numerators, denominators);
  auto quotients = denominators;
  for (std::size_t i = 0; i < quotients.size(); ++i)
    at::div_out(quotients[i], numerators[i], denominators[i]);
  return quotients;
}

// Returns the directions of the step, before multiplication by the rate.
std::vector<at::Tensor> free_directions(const FreeTensors& lists, const FreeOptions& options,
                                        const FreeRates& rates) {
  const double beta2 = std::get<1>(options.betas());
  at::_foreach_mul_(lists.second, beta2);
  at::_foreach_addcmul_(lists.second, lists.gradients, lists.gradients, 1 - beta2);
  const auto denominators = at::_foreach_div(lists.second, rates.bias_correction2);
  at::_foreach_sqrt_(denominators);
  at::_foreach_add_(denominators, options.eps());
  auto directions = quotients_of(lists.gradients, denominators);
  if (options.weight_decay() != 0) at::_foreach_add_(directions, lists.y, options.weight_decay());
  return directions;
}

void free_update(const FreeTensors& lists, const FreeOptions& options, const FreeRates& rates) {
  const double beta1 = std::get<0>(options.betas());
  const auto directions = free_directions(lists, options, rates);
  at::_foreach_lerp_(lists.y, lists.z, rates.weight);
  at::_foreach_add_(lists.y, directions, rates.lr * (beta1 * (1 - rates.weight) - 1));
  at::_foreach_sub_(lists.z, directions, rates.lr);
}

}  // namespace

ScheduleFreeAdamWOptions::ScheduleFreeAdamWOptions(double lr) : lr_(lr) {}

void ScheduleFreeAdamWOptions::check() const {
  const auto [beta1, beta2] = this->betas();
  if (!(beta1 > 0 && beta1 < 1))
    detail::refuse_option(kFreeName, "betas[0]", beta1,
                          "more than 0, by which eval() divides, and less than 1");
  detail::require_fraction(kFreeName, "betas[1]", beta2);
  detail::require_not_negative(kFreeName, "lr", lr());
  detail::require_not_negative(kFreeName, "eps", eps());
  detail::require_not_negative(kFreeName, "weight_decay", weight_decay());
  detail::require_not_negative(kFreeName, "warmup_steps", static_cast<double>(warmup_steps()));
  detail::require_not_negative(kFreeName, "r", r());
  detail::require_not_negative(kFreeName, "weight_lr_power", weight_lr_power());
}

template struct AlgorithmOptions<ScheduleFreeAdamWOptions>;
template struct AlgorithmParamState<ScheduleFreeAdamWParamState>;
template class Algorithm<ScheduleFreeAdamWOptions, ScheduleFreeAdamWParamState>;

at::Tensor ScheduleFreeAdamW::step(LossClosure closure) {
  const at::NoGradGuard no_grad;
  if (!is_in(OptimizerMode::train))
    throw UsageError(
        "step() of ScheduleFreeAdamW was called in evaluation mode. Call train() before training, "
        "after each evaluation and after adding a group. If the optimizer is prepared, call "
        "train() of what prepare() returned");
  const at::Tensor loss = detail::loss_of(closure);
  for (auto& group : param_groups_) {
    auto& options = options_of(group);
    const auto parameters = detail::parameters_with_gradient(group, kFreeName);
    const FreeRates rates = begin_free_step(options);
    for (const auto& run : detail::runs_of(parameters)) {
      FreeTensors lists;
      lists.y = run;
      for (const auto& parameter : run) {
        auto& state = state_of(parameter);
        if (!state.z().defined()) {
          state.z(parameter.detach().clone());
          state.exp_avg_sq(at::zeros_like(parameter));
        }
        lists.gradients.push_back(parameter.grad());
        lists.z.push_back(state.z());
        lists.second.push_back(state.exp_avg_sq());
      }
      free_update(lists, options, rates);
    }
  }
  return loss;
}

void ScheduleFreeAdamW::set_mode(OptimizerMode mode) {
  const at::NoGradGuard no_grad;
  const bool training = mode == OptimizerMode::train;
  for (auto& group : param_groups_) {
    auto& options = options_of(group);
    if (options.train_mode() == training) continue;
    const double beta1 = std::get<0>(options.betas());
    for (auto& parameter : group.params()) {
      const auto found = state_.find(parameter.unsafeGetTensorImpl());
      if (found == state_.end() || !found->second) continue;
      const auto& z = static_cast<const ScheduleFreeAdamWParamState&>(*found->second).z();
      if (z.defined())
        parameter.lerp_(z.to(parameter.device()), training ? 1 - beta1 : 1 - 1 / beta1);
    }
    options.train_mode(training);
  }
}

bool ScheduleFreeAdamW::is_in(OptimizerMode mode) const {
  return std::ranges::all_of(param_groups_, [&](const torch::optim::OptimizerParamGroup& group) {
    const auto* options = dynamic_cast<const FreeOptions*>(&group.options());
    return options != nullptr && options->train_mode() == (mode == OptimizerMode::train);
  });
}

}  // namespace accelerate
