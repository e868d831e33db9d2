// x·Wᵀ + b.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>
#include <cstdint>
#include <optional>
#include <vector>

namespace accelerate::detail {

// x·Wᵀ + b for a few rows, as when text is generated.

/// The most rows for which most of the time goes into reading the weights.
inline constexpr std::int64_t kFewRows = 8;

/// Whether linear_of_few_rows() is faster for these tensors: all fp32 or all bf16, on a CPU with
/// AVX2, contiguous weights, at most kFewRows rows, in inference mode, without autocast. Training
/// and evaluation use LibTorch alone, so that they agree to the bit.
[[nodiscard]] bool are_few_rows(const at::Tensor& input, const at::Tensor& weight,
                                const at::Tensor& bias);

/// input: {…, in}; weight: {out, in}; bias: {out} or undefined; all fp32 or all bf16. Returns
/// {…, out}, summed in fp32 and rounded once. Calls the operator "accelerate::linear_of_few_rows",
/// so that profilers and engines that fetch weights see it. Without AVX2 computes at::linear. Cost:
/// reads the weights once, at the bandwidth of the memory. BLAS on some CPUs reaches half of that
/// bandwidth for one row and a quarter for two.
[[nodiscard]] at::Tensor linear_of_few_rows(const at::Tensor& input, const at::Tensor& weight,
                                            const at::Tensor& bias);

/// Returns at::linear(input, weight, bias). Its backward leaves out the rows of the output whose
/// gradients are all zero, where these are many. So a decoder's backward computes no token that comes
/// after the last label of its row. Gradients are those of at::linear, except for rounding; so are
/// gradients of gradients. Leaves nothing out on a GPU and under autocast.
[[nodiscard]] at::Tensor linear_of_few_gradients(const at::Tensor& input, const at::Tensor& weight,
                                                 const at::Tensor& bias);

/// torch::nn::Linear with at::linear as its forward, as in Python: one kernel that also adds the
/// bias. LibTorch's module multiplies and then adds, which is slower and rounds once more.
class LinearImpl : public torch::nn::LinearImpl {
 public:
  LinearImpl(std::int64_t in, std::int64_t out, bool has_bias = true)
      : torch::nn::LinearImpl(torch::nn::LinearOptions(in, out).bias(has_bias)) {}
  at::Tensor forward(const at::Tensor& input) {
    if (are_few_rows(input, weight, bias)) return linear_of_few_rows(input, weight, bias);
    return expects_few_gradients_ ? linear_of_few_gradients(input, weight, bias)
                                  : at::linear(input, weight, bias);
  }

  /// From now on forward() computes linear_of_few_gradients().
  void expect_few_gradients() { expects_few_gradients_ = true; }

  /// Shares a parameter with another module, under both names.
  void tie_weight(const at::Tensor& shared) { weight = parameters_["weight"] = shared; }
  void tie_bias(const at::Tensor& shared) { bias = parameters_["bias"] = shared; }

 private:
  bool expects_few_gradients_ = false;
};
TORCH_MODULE(Linear);

/// Calls expect_few_gradients() of all linear layers within `module`.
void expect_few_gradients(const torch::nn::Module& module);

/// A linear layer with a transposed weight, {in, out}, as GPT-2 has it. Source: `Conv1D` of
/// Transformers.
class Conv1DImpl : public torch::nn::Module {
 public:
  Conv1DImpl(std::int64_t in, std::int64_t out) : torch::nn::Module("Conv1D") {
    weight = register_parameter("weight", at::randn({in, out}) * 0.02);
    bias = register_parameter("bias", at::zeros({out}));
  }
  at::Tensor forward(const at::Tensor& input) {
    std::vector<std::int64_t> shape = input.sizes().vec();
    shape.back() = weight.size(1);
    return at::addmm(bias, input.reshape({-1, weight.size(0)}), weight).view(shape);
  }

  at::Tensor weight, bias;
};
TORCH_MODULE(Conv1D);

}  // namespace accelerate::detail
