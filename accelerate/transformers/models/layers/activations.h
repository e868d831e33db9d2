#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>

#include "accelerate/transformers/models/config/pretrained_config.h"

namespace accelerate::detail {

using Activation = at::Tensor (*)(const at::Tensor&);

/// Returns the activation that a `hidden_act` names: gelu, gelu_new, gelu_pytorch_tanh, gelu_fast,
/// relu, silu, swish, tanh, sigmoid. Throws ConfigError, which lists them all, for another name.
[[nodiscard]] Activation activation_of(const std::string& name);
/// Throws ConfigError if `key` names another activation.
void check_activation(const PretrainedConfig& values, std::string_view key);

/// As at::gelu(input), x · Φ(x), with derivatives of any order. On a CPU with AVX2, fp32 and bf16
/// take a kernel of its own, "accelerate::gelu". Its error is below 8 units in the last place of
/// fp32 for every x. LibTorch's is 1.5e-7 · |x|, which is all of the value where x is below -5.
/// Cost: about half of LibTorch's time.
[[nodiscard]] at::Tensor gelu_of(const at::Tensor& input);

}  // namespace accelerate::detail
