#include "accelerate/optim/algorithms/lion.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sign.h>
#include <ATen/ops/zeros_like.h>
#include <torch/optim/serialize.h>

#include <utility>

#include "accelerate/optim/algorithms/algorithm_fields.h"
#include "accelerate/optim/algorithms/archived_fields.h"
#include "accelerate/optim/algorithms/step_support.h"

namespace accelerate {
namespace {

void check_lion(const LionOptions& options) {
  detail::require_not_negative("Lion", "lr", options.lr());
  detail::require_fraction("Lion", "betas[0]", std::get<0>(options.betas()));
  detail::require_fraction("Lion", "betas[1]", std::get<1>(options.betas()));
  detail::require_not_negative("Lion", "weight_decay", options.weight_decay());
}

// The tensors of one step; the lists run in parallel. `values` are the parameters, or fp32 copies
// of them.
struct LionTensors {
  std::vector<at::Tensor> parameters, values, gradients, averages;
};

LionTensors lion_tensors(torch::optim::Optimizer& optimizer,
                         const std::vector<at::Tensor>& parameters) {
  LionTensors lists;
  lists.parameters = parameters;
  for (const auto& parameter : lists.parameters) {
    lists.values.push_back(detail::at_least_fp32(parameter));
    lists.gradients.push_back(detail::at_least_fp32(parameter.grad()));
    auto& state = detail::state_of<LionParamState>(optimizer, parameter);
    if (!state.state1().defined()) state.state1(at::zeros_like(lists.values.back()));
    state.step(state.step() + 1);
    lists.averages.push_back(state.state1());
  }
  return lists;
}

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

void LionOptions::serialize(torch::serialize::InputArchive& archive) {
  detail::ReadArchive field{archive};
  detail::visit_lion_options(*this, field);
}

void LionOptions::serialize(torch::serialize::OutputArchive& archive) const {
  LionOptions copy = *this;
  detail::WriteArchive field{archive};
  detail::visit_lion_options(copy, field);
}

void LionParamState::serialize(torch::serialize::InputArchive& archive) {
  detail::ReadArchive field{archive};
  detail::visit_lion_state(*this, field);
}

void LionParamState::serialize(torch::serialize::OutputArchive& archive) const {
  LionParamState copy = *this;
  detail::WriteArchive field{archive};
  detail::visit_lion_state(copy, field);
}

Lion::Lion(const std::vector<torch::optim::OptimizerParamGroup>& param_groups, LionOptions defaults)
    : Optimizer(param_groups, std::make_unique<LionOptions>(defaults)) {
  check_lion(defaults);
  detail::keep_options(param_groups, param_groups_);
  for (auto& group : param_groups_) check_lion(detail::options_of<LionOptions>(group, "Lion"));
}

Lion::Lion(std::vector<at::Tensor> params, LionOptions defaults)
    : Lion({torch::optim::OptimizerParamGroup(std::move(params))}, std::move(defaults)) {}

void Lion::add_param_group(const torch::optim::OptimizerParamGroup& group) {
  torch::optim::OptimizerParamGroup added = group;
  if (!added.has_options()) added.set_options(defaults().clone());
  check_lion(detail::options_of<LionOptions>(added, "Lion"));
  Optimizer::add_param_group(added);
  detail::keep_options(added, param_groups_.back());
}

at::Tensor Lion::step(LossClosure closure) {
  const at::NoGradGuard no_grad;
  const at::Tensor loss = detail::loss_of(closure);
  for (auto& group : param_groups_) {
    const auto& options = detail::options_of<LionOptions>(group, "Lion");
    for (const auto& run : detail::runs_of(detail::parameters_with_gradient(group, "Lion")))
      lion_update(lion_tensors(*this, run), options);
  }
  return loss;
}

void Lion::save(torch::serialize::OutputArchive& archive) const {
  torch::optim::serialize<LionParamState, LionOptions>(archive, *this);
}

void Lion::load(torch::serialize::InputArchive& archive) {
  torch::optim::serialize<LionParamState, LionOptions>(archive, *this);
}

}  // namespace accelerate
