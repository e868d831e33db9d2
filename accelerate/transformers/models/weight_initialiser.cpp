#include "accelerate/transformers/models/weight_initialiser.h"

#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include "accelerate/transformers/models/layers/linear.h"
#include "accelerate/transformers/models/layers/rms_norm.h"

namespace accelerate::detail {

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
    fill(rms->weight, 1);
  } else {
    // Parameters that belong to none of these modules, such as the bias of an output layer.
    for (auto& parameter : module.parameters(/*recurse=*/false)) fill(parameter, 0);
  }
}

}  // namespace accelerate::detail
