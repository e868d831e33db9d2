// What the steps of the optimizers in this folder share.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include <torch/optim/optimizer.h>

namespace accelerate::detail {

/// Returns the loss of `closure`, evaluated with gradients enabled; undefined without a closure.
[[nodiscard]] at::Tensor loss_of(const torch::optim::Optimizer::LossClosure& closure);

/// Returns the parameters of `group` that have a gradient, in order. Throws UsageError for a sparse
/// gradient; the error names `optimizer`.
[[nodiscard]] std::vector<at::Tensor> parameters_with_gradient(
    const torch::optim::OptimizerParamGroup& group, const std::string& optimizer);

/// Cuts `parameters` into runs for list operations. A run on the CPU is small enough that its
/// temporaries stay in the cache. A run on another device is as long as possible.
[[nodiscard]] std::vector<std::vector<at::Tensor>> runs_of(
    const std::vector<at::Tensor>& parameters);

/// Whether `tensor` is fp16 or bf16.
[[nodiscard]] bool is_half(const at::Tensor& tensor);
/// Returns `tensor` in fp32 if it is fp16 or bf16, else `tensor` itself.
[[nodiscard]] at::Tensor at_least_fp32(const at::Tensor& tensor);

/// Returns a factor that 16-bit tensors are multiplied by in fp32, as in Python. LibTorch's
/// mul_(double) rounds the factor to 16 bits first: 1 - 1e-4 would be 1.
[[nodiscard]] at::Tensor exact_factor(double value);

/// Throws ConfigError unless `value` is finite and 0 or more. The error names `optimizer` and
/// `option`.
void require_not_negative(const std::string& optimizer, const std::string& option, double value);
/// Throws ConfigError unless 0 <= value < 1. The error names `optimizer` and `option`.
void require_fraction(const std::string& optimizer, const std::string& option, double value);
/// Throws ConfigError: `option` of `optimizer` is `value`, but only `allowed` is allowed.
[[noreturn]] void refuse_option(const std::string& optimizer, const std::string& option,
                                double value, const std::string& allowed);

/// Throws UsageError: a group of `optimizer` has options of another class.
[[noreturn]] void refuse_options_class(const std::string& optimizer,
                                       const torch::optim::OptimizerOptions& options);

/// Gives `own` a copy of the options of `given`, if it has any. For classes that it does not know,
/// LibTorch's add_param_group() replaces a group's options by the optimizer's defaults.
void keep_options(const torch::optim::OptimizerParamGroup& given,
                  torch::optim::OptimizerParamGroup& own);

}  // namespace accelerate::detail
