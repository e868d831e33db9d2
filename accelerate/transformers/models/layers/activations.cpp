#include "accelerate/transformers/models/layers/activations.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/erf.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/hardswish.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/mish.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/relu6.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/square.h>
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
at::Tensor gelu_python(const at::Tensor& x) {
  return x * 0.5 * (1.0 + at::erf(x / std::numbers::sqrt2));
}
at::Tensor gelu_10(const at::Tensor& x) {
  return at::clamp(gelu_of(x), -10, 10);
}
at::Tensor quick_gelu(const at::Tensor& x) {
  return x * at::sigmoid(1.702 * x);
}
at::Tensor laplace(const at::Tensor& x) {
  return 0.5 * (1.0 + at::erf((x - 0.707107) / (0.282095 * std::numbers::sqrt2)));
}
at::Tensor relu2(const at::Tensor& x) {
  return at::square(at::relu(x));
}
at::Tensor leaky_relu(const at::Tensor& x) {
  return at::leaky_relu(x);
}
at::Tensor sqrt_softplus(const at::Tensor& x) {
  return at::sqrt(at::softplus(x));
}
at::Tensor linear(const at::Tensor& x) {
  return x;
}

// `gelu_python_tanh` and `gelu_accurate` are `gelu_new` to the bit: halving does not round.
constexpr std::array<std::pair<std::string_view, Activation>, 22> kActivations{{
    {"gelu", gelu_of},
    {"gelu_new", gelu_new},
    {"gelu_pytorch_tanh", gelu_tanh},
    {"gelu_fast", gelu_fast},
    {"gelu_python", gelu_python},
    {"gelu_python_tanh", gelu_new},
    {"gelu_accurate", gelu_new},
    {"gelu_10", gelu_10},
    {"quick_gelu", quick_gelu},
    {"hardswish", at::hardswish},
    {"laplace", laplace},
    {"leaky_relu", leaky_relu},
    {"linear", linear},
    {"mish", at::mish},
    {"relu", at::relu},
    {"relu2", relu2},
    {"relu6", at::relu6},
    {"sigmoid", at::sigmoid},
    {"silu", at::silu},
    {"sqrtsoftplus", sqrt_softplus},
    {"swish", at::silu},
    {"tanh", at::tanh},
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
