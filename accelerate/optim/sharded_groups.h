// Optimizers over shards.
#pragma once

#include <ATen/core/Tensor.h>

#include <type_traits>
#include <typeindex>
#include <typeinfo>
#include <vector>

namespace torch::optim {
class Optimizer;
}

namespace accelerate {

class FullyShardedDataParallel;

namespace detail {

/// Puts this rank's parts in the place of the parameters of `model` in the groups of `optimizer`,
/// options and order kept, and cuts the state that it has of them. Returns whether it holds any.
/// Local. Throws UsageError for an optimizer that must see whole parameters, and for state of a
/// class that is not known here; ConfigError for Adafactor, which looks at whole matrices.
bool hold_shards(torch::optim::Optimizer& optimizer, const FullyShardedDataParallel& model);
/// The same in `parameters`, which are to become a group of `optimizer`.
void hold_shards(std::vector<at::Tensor>& parameters, torch::optim::Optimizer& optimizer,
                 const FullyShardedDataParallel& model);

void register_elementwise(std::type_index type);

}  // namespace detail

/// Says of an optimizer class of the user's own that it updates every element by itself, from its
/// gradient and state of the same shape, as SGD and Adam do: so that it may be prepared together
/// with a sharded model, of which it then sees parts of shape {n}. State in a class of its own is
/// not cut, so prepare it before its first step. Thread-safe.
template <typename Optimizer>
  requires std::is_base_of_v<torch::optim::Optimizer, Optimizer>
void register_elementwise_optimizer() {
  detail::register_elementwise(typeid(Optimizer));
}

}  // namespace accelerate
