#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace accelerate::detail {

using Activation = at::Tensor (*)(const at::Tensor&);

/// The activation of a `hidden_act`: gelu, gelu_new, gelu_pytorch_tanh, gelu_fast, relu, silu,
/// swish, tanh, sigmoid. Throws ConfigError, with all of them, for another word.
[[nodiscard]] Activation activation_of(const std::string& name);

}  // namespace accelerate::detail
