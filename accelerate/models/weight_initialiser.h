// The first values of weights that no file has.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <functional>
#include <set>
#include <utility>

namespace accelerate::detail {

/// Gives tensors their first values, each once though several modules may share it, and only those
/// that are wanted. Random numbers come from LibTorch's generator. Gradients must be off.
class WeightInitialiser {
 public:
  using Wants = std::function<bool(const at::Tensor&)>;
  explicit WeightInitialiser(Wants wants) : wants_(std::move(wants)) {}

  /// Of a normal distribution around 0. Returns whether it was wanted.
  bool normal(at::Tensor& tensor, double deviation);
  /// The same of a tensor that has its first values already.
  void normal_again(at::Tensor& tensor, double deviation);
  void fill(at::Tensor& tensor, double value);
  void copy(at::Tensor& tensor, const at::Tensor& values);

  /// What `PreTrainedModel._init_weights` of Transformers does to the module's own parameters.
  void usual(torch::nn::Module& module, double deviation);

 private:
  [[nodiscard]] bool take(const at::Tensor& tensor);

  Wants wants_;
  std::set<const at::TensorImpl*> done_;
};

}  // namespace accelerate::detail
