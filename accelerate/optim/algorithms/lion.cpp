#include "accelerate/optim/algorithms/lion.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sign.h>
#include <ATen/ops/zeros_like.h>

#include "accelerate/optim/algorithms/algorithm_impl.h"

namespace accelerate {
namespace {

// The tensors of one step; the lists run in parallel. `values` are the parameters, or fp32 copies
// of them.
struct LionTensors {
  std::vector<at::Tensor> parameters, values, gradients, averages;
};

void lion_update(const LionTensors& lists, const LionOptions& options) {
  const auto [beta1, beta2] = options.betas();
  if (options.weight_decay() > 0)
    at::_foreach_mul_(lists.values, 1 - options.lr() * options.weight_decay());
  const auto directions = at::_foreach_mul(lists.averages, beta1);
  at::_foreach_add_(directions, lists.gradients, 1 - beta1);
  at::_foreach_sign_(directions);
  at::_foreach_add_(lists.values, directions, -options.lr());
  at::_foreach_mul_(lists.averages, beta2);
  at::_foreach_add_(lists.averages, lists.gradients, 1 - beta2);
  for (std::size_t i = 0; i < lists.parameters.size(); ++i) {
    if (detail::is_half(lists.parameters[i])) lists.parameters[i].copy_(lists.values[i]);
  }
}

}  // namespace

LionOptions::LionOptions(double lr) : lr_(lr) {}

void LionOptions::check() const {
  detail::require_not_negative("Lion", "lr", lr());
  detail::require_fraction("Lion", "betas[0]", std::get<0>(betas()));
  detail::require_fraction("Lion", "betas[1]", std::get<1>(betas()));
  detail::require_not_negative("Lion", "weight_decay", weight_decay());
}

template struct AlgorithmOptions<LionOptions>;
template struct AlgorithmParamState<LionParamState>;
template class Algorithm<LionOptions, LionParamState>;

at::Tensor Lion::step(LossClosure closure) {
  const at::NoGradGuard no_grad;
  const at::Tensor loss = detail::loss_of(closure);
  for (auto& group : param_groups_) {
    const LionOptions& options = options_of(group);
    for (const auto& run : detail::runs_of(detail::parameters_with_gradient(group, "Lion"))) {
      LionTensors lists;
      lists.parameters = run;
      for (const auto& parameter : run) {
        lists.values.push_back(detail::at_least_fp32(parameter));
        lists.gradients.push_back(detail::at_least_fp32(parameter.grad()));
        auto& state = state_of(parameter);
        if (!state.state1().defined()) state.state1(at::zeros_like(lists.values.back()));
        state.step(state.step() + 1);
        lists.averages.push_back(state.state1());
      }
      lion_update(lists, options);
    }
  }
  return loss;
}

}  // namespace accelerate
