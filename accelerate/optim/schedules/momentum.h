// The momentum of optimizers that have one, under whatever name.
#pragma once

#include <string>
#include <vector>

namespace torch::optim {
class Optimizer;
class OptimizerParamGroup;
}  // namespace torch::optim

namespace accelerate::detail {

/// Returns "momentum" (SGD, RMSprop), "betas" (the first beta of Adam, AdamW), or "" for optimizers
/// that have neither.
[[nodiscard]] std::string momentum_field(torch::optim::Optimizer& optimizer);

/// Returns the momentum of `group`, which belongs to an optimizer that has one.
[[nodiscard]] double group_momentum(const torch::optim::OptimizerParamGroup& group);

/// Sets the momentum of `group`.
void set_group_momentum(torch::optim::OptimizerParamGroup& group, double momentum);

}  // namespace accelerate::detail
