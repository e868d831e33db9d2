// x / √(mean x² + ε) · w.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rsqrt.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <string>

namespace accelerate::detail {

/// How a norm is weighted, as in a class of Transformers.
enum class NormWeight {
  after_rounding,  ///< In the type of the input: `LlamaRMSNorm`.
  in_fp32,         ///< Then rounded: `Olmo2RMSNorm`.
  above_one,       ///< In fp32, by 1 + weight: `Gemma2RMSNorm`.
};

/// The norm of Llama and similar models, computed in fp32. {…, H} → {…, H}.
/// Source: Zhang and Sennrich 2019.
class RMSNormImpl : public torch::nn::Module {
 public:
  /// `class_name`: the name of Transformers' class, such as "LlamaRMSNorm".
  RMSNormImpl(const std::string& class_name, std::int64_t size, double epsilon,
              NormWeight kind = NormWeight::after_rounding)
      : torch::nn::Module(class_name), epsilon_(epsilon), kind_(kind) {
    weight = register_parameter("weight", at::full({size}, first_weight()));
  }
  /// What new weights are.
  [[nodiscard]] double first_weight() const { return kind_ == NormWeight::above_one ? 0 : 1; }
  at::Tensor forward(const at::Tensor& input) {
    const at::Tensor whole = input.to(at::kFloat);
    const at::Tensor variance = whole.square().mean(-1, /*keepdim=*/true);
    const at::Tensor normed = whole * at::rsqrt(variance + epsilon_);
    if (kind_ == NormWeight::after_rounding) return weight * normed.to(input.scalar_type());
    const at::Tensor factor = kind_ == NormWeight::above_one ? weight.to(at::kFloat) + 1 : weight;
    return (normed * factor).to(input.scalar_type());
  }

  at::Tensor weight;

 private:
  double epsilon_;
  NormWeight kind_;
};
TORCH_MODULE(RMSNorm);

}  // namespace accelerate::detail
