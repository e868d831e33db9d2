#include "accelerate/transformers/models/weight_initialiser.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <cmath>
#include <numbers>

#include "accelerate/transformers/models/layers/linear.h"
#include "accelerate/transformers/models/layers/rms_norm.h"

namespace accelerate::detail {
namespace {

// Draws from a normal distribution, and again where a value is too far from 0.
void redraw_far_values(at::Tensor& tensor, double deviation, double most) {
  const double bound = at::scalar_tensor(most, tensor.options()).item<double>();
  tensor.normal_(0, deviation);
  for (at::Tensor is_far; (is_far = tensor.abs() > bound).any().item<bool>();)
    tensor.copy_(at::where(is_far, at::empty_like(tensor).normal_(0, deviation), tensor));
}

// The same for a narrow range: draws evenly, and keeps a value with the probability that the normal
// distribution gives it.
void redraw_by_probability(at::Tensor& tensor, double deviation, double most) {
  const auto is_refused = [&](const at::Tensor& values) {
    const at::Tensor odds = (values / deviation).pow(2) * -0.5;
    return at::empty_like(values).uniform_().log_().gt(odds);
  };
  tensor.uniform_(-most, most);
  for (at::Tensor refused = is_refused(tensor); refused.any().item<bool>();) {
    const at::Tensor next = at::empty_like(tensor).uniform_(-most, most);
    tensor.copy_(at::where(refused, next, tensor));
    refused = refused.logical_and(is_refused(next));
  }
}

}  // namespace

bool WeightInitialiser::take(const at::Tensor& tensor) {
  return tensor.defined() && wants_(tensor) && done_.insert(tensor.unsafeGetTensorImpl()).second;
}

bool WeightInitialiser::normal(at::Tensor& tensor, double deviation) {
  if (!take(tensor)) return false;
  tensor.normal_(0, deviation);
  return true;
}

void WeightInitialiser::normal_again(at::Tensor& tensor, double deviation) {
  if (wants_(tensor)) tensor.normal_(0, deviation);
}

void WeightInitialiser::truncated_normal_again(at::Tensor& tensor, double deviation,
                                               double cutoff) {
  if (!wants_(tensor) || tensor.is_meta()) return;
  constexpr double kMostlyKept = 0.3;
  const bool is_wide = std::erf(cutoff / std::numbers::sqrt2) > kMostlyKept;
  (is_wide ? redraw_far_values : redraw_by_probability)(tensor, deviation, cutoff * deviation);
}

void WeightInitialiser::fill(at::Tensor& tensor, double value) {
  if (take(tensor)) tensor.fill_(value);
}

void WeightInitialiser::copy(at::Tensor& tensor, const at::Tensor& values) {
  if (wants_(tensor)) tensor.copy_(values);
}

void WeightInitialiser::usual(torch::nn::Module& module, double deviation) {
  if (auto* linear = dynamic_cast<torch::nn::LinearImpl*>(&module)) {
    normal(linear->weight, deviation);
    fill(linear->bias, 0);
  } else if (auto* transposed = dynamic_cast<Conv1DImpl*>(&module)) {
    normal(transposed->weight, deviation);
    fill(transposed->bias, 0);
  } else if (auto* embedding = dynamic_cast<torch::nn::EmbeddingImpl*>(&module)) {
    const auto padding = embedding->options.padding_idx();
    if (normal(embedding->weight, deviation) && padding) embedding->weight[*padding].zero_();
  } else if (auto* norm = dynamic_cast<torch::nn::LayerNormImpl*>(&module)) {
    fill(norm->weight, 1);
    fill(norm->bias, 0);
  } else if (auto* rms = dynamic_cast<RMSNormImpl*>(&module)) {
    fill(rms->weight, rms->first_weight());
  } else {
    // Parameters that belong to none of these modules, such as the bias of an output layer.
    for (auto& parameter : module.parameters(/*recurse=*/false)) fill(parameter, 0);
  }
}

}  // namespace accelerate::detail
