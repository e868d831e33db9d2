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

}  // namespace accelerate::detail
