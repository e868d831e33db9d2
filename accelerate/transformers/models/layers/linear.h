// x·Wᵀ + b.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <vector>

#include "accelerate/transformers/models/layers/few_rows.h"

namespace accelerate::detail {

/// torch::nn::Linear with at::linear as its forward, as in Python: one kernel that also adds the
/// bias. LibTorch's module multiplies and then adds, which is slower and rounds once more.
class LinearImpl : public torch::nn::LinearImpl {
 public:
  LinearImpl(std::int64_t in, std::int64_t out, bool has_bias = true)
      : torch::nn::LinearImpl(torch::nn::LinearOptions(in, out).bias(has_bias)) {}
  at::Tensor forward(const at::Tensor& input) {
    if (are_few_rows(input, weight, bias)) return linear_of_few_rows(input, weight, bias);
    return at::linear(input, weight, bias);
  }

  /// Shares a parameter with another module, under both names.
  void tie_weight(const at::Tensor& shared) { weight = parameters_["weight"] = shared; }
  void tie_bias(const at::Tensor& shared) { bias = parameters_["bias"] = shared; }
};
TORCH_MODULE(Linear);

/// A linear layer with a transposed weight, {in, out}, as GPT-2 has it. Source: `Conv1D` of
/// Transformers.
class Conv1DImpl : public torch::nn::Module {
 public:
  Conv1DImpl(std::int64_t in, std::int64_t out) : torch::nn::Module("Conv1D") {
    weight = register_parameter("weight", at::randn({in, out}) * 0.02);
    bias = register_parameter("bias", at::zeros({out}));
  }
  at::Tensor forward(const at::Tensor& input) {
    std::vector<std::int64_t> shape = input.sizes().vec();
    shape.back() = weight.size(1);
    return at::addmm(bias, input.reshape({-1, weight.size(0)}), weight).view(shape);
  }

  at::Tensor weight, bias;
};
TORCH_MODULE(Conv1D);

}  // namespace accelerate::detail
