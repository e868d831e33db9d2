// The momentum of optimizers that have one, whatever they call it.
#pragma once

#include <string>
#include <vector>

namespace torch::optim {
class Optimizer;
class OptimizerParamGroup;
}  // namespace torch::optim

namespace accelerate::detail {

/// "momentum" (SGD, RMSprop), "betas" (the first beta of Adam, AdamW), or "" for optimizers that
/// have neither.
[[nodiscard]] std::string momentum_field(torch::optim::Optimizer& optimizer);

/// The momentum of `group`, of an optimizer that has one.
[[nodiscard]] double group_momentum(const torch::optim::OptimizerParamGroup& group);

/// Sets it.
void set_group_momentum(torch::optim::OptimizerParamGroup& group, double momentum);

}  // namespace accelerate::detail
