// The tensors inside LibTorch's optimizer states, which keep them in typed private fields.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace torch::optim {
class Optimizer;
}

namespace accelerate {

/// Replaces every tensor of the optimizer's state (moments, momentum buffers, …) by `fn` of it;
/// step counters that LibTorch keeps as numbers are not visited. Knows SGD, Adam, AdamW, Adagrad,
/// RMSprop and LBFGS; throws UsageError that names the type for any other whose state is not empty.
void map_state_tensors(torch::optim::Optimizer& optimizer,
                       const std::function<at::Tensor(const at::Tensor&)>& fn);

}  // namespace accelerate
