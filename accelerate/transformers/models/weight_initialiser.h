// Initialises weights that no file has.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <functional>
#include <set>
#include <utility>

namespace accelerate::detail {

/// Initialises the tensors for which `wants` is true, each once even if several modules share it.
/// Random numbers come from LibTorch's generator. Gradients must be off.
class WeightInitialiser {
 public:
  using Wants = std::function<bool(const at::Tensor&)>;
  explicit WeightInitialiser(Wants wants) : wants_(std::move(wants)) {}

  /// Draws values from a normal distribution around 0. Returns false if the tensor is not wanted or
  /// was initialised before.
  bool normal(at::Tensor& tensor, double deviation);
  /// As normal(), but also for a tensor that was initialised before.
  void normal_again(at::Tensor& tensor, double deviation);
  /// As normal_again(), but draws values again until none is farther from 0 than `cutoff`
  /// deviations. Source: `trunc_normal_` of `torch.nn.init`.
  void truncated_normal_again(at::Tensor& tensor, double deviation, double cutoff);
  void fill(at::Tensor& tensor, double value);
  void copy(at::Tensor& tensor, const at::Tensor& values);

  /// Does what `PreTrainedModel._init_weights` of Transformers does to the module's own parameters.
  void usual(torch::nn::Module& module, double deviation);

 private:
  [[nodiscard]] bool take(const at::Tensor& tensor);

  Wants wants_;
  std::set<const at::TensorImpl*> done_;
};

}  // namespace accelerate::detail
