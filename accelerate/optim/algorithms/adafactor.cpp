#include "accelerate/optim/algorithms/adafactor.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>

#include "accelerate/base/error.h"
#include "accelerate/optim/algorithms/algorithm_impl.h"

namespace accelerate {
namespace {

constexpr const char* kAdafactorName = "Adafactor";

void check_adafactor_rate(const AdafactorOptions& options) {
  if (options.lr() && options.relative_step())
    throw ConfigError(
        "Adafactor has both lr and relative_step, which computes its own rate: leave lr out, or "
        "set relative_step(false)");
  if (!options.lr() && !options.relative_step())
    throw ConfigError("Adafactor has neither a rate lr nor relative_step: give one of them");
  if (options.warmup_init() && !options.relative_step())
    throw ConfigError("warmup_init of Adafactor needs relative_step(true)");
  if (options.lr()) detail::require_not_negative(kAdafactorName, "lr", *options.lr());
}

// Returns the root mean square of `tensor`, shape {}.
at::Tensor adafactor_rms(const at::Tensor& tensor) {
  return at::linalg_vector_norm(tensor, 2).div(std::sqrt(static_cast<double>(tensor.numel())));
}

bool is_factored(const at::Tensor& gradient) {
  return gradient.dim() >= 2;
}

// Makes `moment` if it is missing, and moves it to the gradient's device and dtype.
void follow_gradient(at::Tensor& moment, at::IntArrayRef sizes, const at::Tensor& gradient) {
  moment = moment.defined() ? moment.to(gradient.options()) : at::zeros(sizes, gradient.options());
}

void follow_gradient(AdafactorParamState& state, const at::Tensor& gradient,
                     const AdafactorOptions& options) {
  if (options.beta1()) follow_gradient(state.exp_avg(), gradient.sizes(), gradient);
  if (!is_factored(gradient)) {
    follow_gradient(state.exp_avg_sq(), gradient.sizes(), gradient);
    return;
  }
  std::vector<std::int64_t> row = gradient.sizes().vec(), column = row;
  row.pop_back();
  column.erase(column.end() - 2);
  follow_gradient(state.exp_avg_sq_row(), row, gradient);
  follow_gradient(state.exp_avg_sq_col(), column, gradient);
}

double adafactor_rate(const AdafactorParamState& state, const AdafactorOptions& options) {
  const auto step = static_cast<double>(state.step());
  const double highest = options.warmup_init() ? 1e-6 * step : 1e-2;
  const double rate =
      options.relative_step() ? std::min(highest, 1 / std::sqrt(step)) : options.get_lr();
  if (!options.scale_parameter()) return rate;
  const double least = std::get<1>(options.eps());
  if (!(state.RMS().item<double>() > least)) return least * rate;
  return state.RMS().mul(rate).item<double>();  // Rounded to the parameter's dtype, as in Python.
}

// Updates the second moments and returns the gradient divided by their root.
at::Tensor normed_gradient(AdafactorParamState& state, const at::Tensor& gradient,
                           const AdafactorOptions& options) {
  const double beta2 = 1 - std::pow(static_cast<double>(state.step()), options.decay_rate());
  at::Tensor update = gradient.square().add_(std::get<0>(options.eps()));
  if (!is_factored(gradient)) {
    state.exp_avg_sq().mul_(beta2).add_(update, 1 - beta2);
    return state.exp_avg_sq().rsqrt().mul_(gradient);
  }
  const at::Tensor row = state.exp_avg_sq_row().mul_(beta2).add_(update.mean(-1), 1 - beta2);
  const at::Tensor column = state.exp_avg_sq_col().mul_(beta2).add_(update.mean(-2), 1 - beta2);
  const at::Tensor row_factor = row.div(row.mean(-1, /*keepdim=*/true)).rsqrt_().unsqueeze(-1);
  return at::mul_out(update, row_factor, column.rsqrt().unsqueeze(-2)).mul_(gradient);
}

void adafactor_update(AdafactorParamState& state, const at::Tensor& parameter,
                      const AdafactorOptions& options) {
  const at::Tensor gradient = detail::at_least_fp32(parameter.grad());
  const at::Tensor value = detail::at_least_fp32(parameter);
  follow_gradient(state, gradient, options);
  state.step(state.step() + 1);
  state.RMS(adafactor_rms(value));
  const double rate = adafactor_rate(state, options);
  at::Tensor update = normed_gradient(state, gradient, options);
  update.div_(adafactor_rms(update).div_(options.clip_threshold()).clamp_min_(1.0)).mul_(rate);
  if (options.beta1()) {
    state.exp_avg().mul_(*options.beta1()).add_(update, 1 - *options.beta1());
    update = state.exp_avg();
  }
  if (options.weight_decay() != 0) value.add_(value, -options.weight_decay() * rate);
  value.sub_(update);
  if (detail::is_half(parameter)) parameter.copy_(value);
}

}  // namespace

AdafactorOptions::AdafactorOptions(std::optional<double> lr) : lr_(lr) {}

double AdafactorOptions::get_lr() const {
  if (lr()) return *lr();
  throw UsageError(
      "Adafactor with relative_step has no rate that a schedule could change. Give it one: "
      "AdafactorOptions(1e-3).scale_parameter(false).relative_step(false)");
}

void AdafactorOptions::check() const {
  check_adafactor_rate(*this);
  if (beta1()) detail::require_fraction(kAdafactorName, "beta1", *beta1());
  if (!(clip_threshold() > 0))
    detail::refuse_option(kAdafactorName, "clip_threshold", clip_threshold(), "a number above 0");
  if (!(decay_rate() <= 0))
    detail::refuse_option(kAdafactorName, "decay_rate", decay_rate(),
                          "0 or less: the exponent of the step's number");
  detail::require_not_negative(kAdafactorName, "eps[0]", std::get<0>(eps()));
  detail::require_not_negative(kAdafactorName, "eps[1]", std::get<1>(eps()));
  detail::require_not_negative(kAdafactorName, "weight_decay", weight_decay());
}

template struct AlgorithmOptions<AdafactorOptions>;
template struct AlgorithmParamState<AdafactorParamState>;
template class Algorithm<AdafactorOptions, AdafactorParamState>;

at::Tensor Adafactor::step(LossClosure closure) {
  const at::NoGradGuard no_grad;
  const at::Tensor loss = detail::loss_of(closure);
  for (auto& group : param_groups_) {
    const AdafactorOptions& options = options_of(group);
    for (const auto& parameter : detail::parameters_with_gradient(group, kAdafactorName))
      adafactor_update(state_of(parameter), parameter, options);
  }
  return loss;
}

}  // namespace accelerate
