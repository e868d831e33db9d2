// A step of the graph through which no backward comes.
#pragma once

#include <torch/torch.h>

#include <stdexcept>

namespace accelerate::testing {

/// Gives its input on; its backward throws std::runtime_error.
struct FailsInBackward : torch::autograd::Function<FailsInBackward> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) {
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list) {
    throw std::runtime_error("backward ran out of luck");
  }
};

}  // namespace accelerate::testing
