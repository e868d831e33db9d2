// Makes optimizers hold shards.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <type_traits>
#include <typeindex>
#include <typeinfo>
#include <vector>

namespace torch::optim {
class Optimizer;
}

namespace accelerate {

class ModelParts;

namespace detail {

/// Replaces the parameters of `model` in the groups of `optimizer` by this rank's parts, and cuts
/// the optimizer's state of them. Options and order are kept. Returns whether the optimizer holds
/// any part. Tells a WholeMatrixOptimizer of each part. Local. Throws UsageError for an optimizer
/// that needs whole parameters, and for state of an unknown class. Throws ConfigError for
/// Adafactor, which needs whole matrices.
bool hold_shards(torch::optim::Optimizer& optimizer, const std::shared_ptr<ModelParts>& model);
/// As above, in `parameters`, which will become a group of `optimizer`.
void hold_shards(std::vector<at::Tensor>& parameters, torch::optim::Optimizer& optimizer,
                 const std::shared_ptr<ModelParts>& model);

/// Throws as hold_shards(), for an optimizer that holds a parameter for which `is_divided`. Changes
/// nothing.
void require_may_hold(torch::optim::Optimizer& optimizer,
                      const std::function<bool(const at::Tensor&)>& is_divided);

void register_elementwise(std::type_index type);

}  // namespace detail

/// Declares that a user-defined optimizer class updates every element independently, from its
/// gradient and state of the same shape, as SGD and Adam do. Such an optimizer may be prepared with
/// a sharded model, and then sees parts of shape {n}. State of a user-defined class cannot be cut,
/// so prepare the optimizer before its first step. Thread-safe.
template <typename Optimizer>
  requires std::is_base_of_v<torch::optim::Optimizer, Optimizer>
void register_elementwise_optimizer() {
  detail::register_elementwise(typeid(Optimizer));
}

}  // namespace accelerate
