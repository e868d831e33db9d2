#include "accelerate/transformers/models/layers/activations.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tanh.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string_view>
#include <utility>

#include "accelerate/base/error.h"

namespace accelerate::detail {
namespace {

at::Tensor gelu_tanh(const at::Tensor& x) {
  return at::gelu(x, "tanh");
}
// Step by step, as it was written before there was an operator: the operator rounds differently.
at::Tensor gelu_new(const at::Tensor& x) {
  const double scale = std::sqrt(2.0 / std::numbers::pi);
  return 0.5 * x * (1.0 + at::tanh(scale * (x + 0.044715 * at::pow(x, 3.0))));
}
at::Tensor gelu_fast(const at::Tensor& x) {
  return 0.5 * x * (1.0 + at::tanh(x * 0.7978845608 * (1.0 + 0.044715 * x * x)));
}
at::Tensor relu(const at::Tensor& x) {
  return at::relu(x);
}
at::Tensor silu(const at::Tensor& x) {
  return at::silu(x);
}
at::Tensor tanh(const at::Tensor& x) {
  return at::tanh(x);
}
at::Tensor sigmoid(const at::Tensor& x) {
  return at::sigmoid(x);
}

constexpr std::array<std::pair<std::string_view, Activation>, 9> kActivations{{
    {"gelu", gelu_of},
    {"gelu_new", gelu_new},
    {"gelu_pytorch_tanh", gelu_tanh},
    {"gelu_fast", gelu_fast},
    {"relu", relu},
    {"silu", silu},
    {"swish", silu},
    {"tanh", tanh},
    {"sigmoid", sigmoid},
}};

std::string activation_names() {
  std::string all;
  for (const auto& [name, activation] : kActivations)
    all += (all.empty() ? "" : ", ") + std::string(name);
  return all;
}

}  // namespace

Activation activation_of(const std::string& name) {
  for (const auto& [known, activation] : kActivations)
    if (known == name) return activation;
  throw ConfigError("the activation '" + name + "' is unknown; allowed are " + activation_names());
}

void check_activation(const PretrainedConfig& values, std::string_view key) {
  const auto given = values.get<std::string>(key);
  const auto is_given = [&](const auto& known) { return known.first == *given; };
  if (given && std::ranges::none_of(kActivations, is_given))
    values.refuse(key, "one of " + activation_names());
}

}  // namespace accelerate::detail
