// x / √(mean x² + ε) · w.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rsqrt.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <string>

namespace accelerate::detail {

/// The norm of Llama and similar models. Computed in fp32 and weighted in the type of the input, so
/// that it rounds as `LlamaRMSNorm` of Transformers, or, if `weights_in_fp32`, as `Olmo2RMSNorm`.
/// {…, H} → {…, H}. Source: Zhang and Sennrich 2019.
class RMSNormImpl : public torch::nn::Module {
 public:
  /// `class_name`: the name of Transformers' class, such as "LlamaRMSNorm".
  RMSNormImpl(const std::string& class_name, std::int64_t size, double epsilon,
              bool weights_in_fp32 = false)
      : torch::nn::Module(class_name), epsilon_(epsilon), weights_in_fp32_(weights_in_fp32) {
    weight = register_parameter("weight", at::ones({size}));
  }
  at::Tensor forward(const at::Tensor& input) {
    const at::Tensor whole = input.to(at::kFloat);
    const at::Tensor variance = whole.square().mean(-1, /*keepdim=*/true);
    const at::Tensor normed = whole * at::rsqrt(variance + epsilon_);
    return weights_in_fp32_ ? (weight * normed).to(input.scalar_type())
                            : weight * normed.to(input.scalar_type());
  }

  at::Tensor weight;

 private:
  double epsilon_;
  bool weights_in_fp32_;
};
TORCH_MODULE(RMSNorm);

}  // namespace accelerate::detail
