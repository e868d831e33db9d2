#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>

#include "accelerate/transformers/models/config/pretrained_config.h"

namespace accelerate::detail {

using Activation = at::Tensor (*)(const at::Tensor&);

/// Returns the activation that a `hidden_act` names: all of Transformers' ACT2FN but `prelu` and
/// `xielu`, which have weights. Throws ConfigError, which lists them all, for another name.
[[nodiscard]] Activation activation_of(const std::string& name);
/// Throws ConfigError if `key` names another activation.
void check_activation(const PretrainedConfig& values, std::string_view key);

/// Returns at::gelu(input), with derivatives of any order. On a CPU with AVX2 the gradient of fp32 and
/// bf16 has a kernel of its own, "accelerate::gelu_backward": with AVX-512 it takes two thirds of
/// LibTorch's time. In fp32 its slope differs from the exact one by at most 3e-7.
[[nodiscard]] at::Tensor gelu_of(const at::Tensor& input);

}  // namespace accelerate::detail
