// LibTorch's fused optimizer kernels: one sweep over parameters, gradients and moments instead of
// one sweep for each arithmetic operation. They are internals of LibTorch; versions 2.11 to 2.13
// are known to work. Only this file deals with their schemas, gaps and faults.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace accelerate::compat {

enum class FusedOptimizer { sgd, adam, adamw, adagrad };

/// Whether this LibTorch has a kernel that computes for `parameter` what torch::optim computes. The
/// parameter must be real, fp32 or fp64, dense in memory, on the CPU or a GPU. Other parameters are
/// excluded because the CPU kernels check little: in 2.13 SGD does not move fp16 or bf16 parameters
/// at all, and eps vanishes in fp16. Local; nanoseconds.
[[nodiscard]] bool can_fuse(FusedOptimizer which, const at::Tensor& parameter);

/// Whether `tensor` (a gradient, a moment) can be used with `parameter`: it is defined, and of the
/// same kind, device, dtype, shape and memory order. The kernels read all tensors front to back, so
/// a transposed gradient would meet the wrong elements. Local; nanoseconds.
[[nodiscard]] bool accompanies(const at::Tensor& parameter, const at::Tensor& tensor);

/// The greatest step number that the kernels represent exactly, because they count in fp32.
inline constexpr std::int64_t kLastFusedStep = std::int64_t{1} << 24;

/// Tensors of one step, position by position. The parameters must pass can_fuse and share one
/// device and dtype; the other tensors must pass accompanies. Lists that an optimizer does not use
/// stay empty.
struct FusedTensors {
  std::vector<at::Tensor> parameters, gradients;
  std::vector<at::Tensor> first;   ///< Momentum buffers, exp_avg, or sums.
  std::vector<at::Tensor> second;  ///< exp_avg_sq of Adam and AdamW.
  std::vector<at::Tensor> third;   ///< max_exp_avg_sq of Adam and AdamW, with amsgrad.
  std::vector<at::Tensor> steps;   ///< Shape {}, fp32; the number of this step, from 1 on.
  at::Tensor
      rate;  ///< Shape {}, fp32: the learning rate, instead of the settings' `lr`, if defined.
};

struct FusedAdamOptions {
  double lr, beta1, beta2, weight_decay, eps;
  bool amsgrad;
};
struct FusedSgdOptions {
  double lr, momentum, dampening, weight_decay;
  bool nesterov;
  bool is_first_step;  ///< The buffers are uninitialised and become the gradients.
};
struct FusedAdagradOptions {
  double lr, lr_decay, weight_decay, eps;
};

// Take one step, in place. Gradients are only read. Version counters of the parameters do not move.
// Source: aten/src/ATen/native/Fused*.cpp, torch/optim/{adam,adamw,sgd,adagrad}.py (fused=True).
void fused_adam_(const FusedTensors& tensors, const FusedAdamOptions& settings);
void fused_adamw_(const FusedTensors& tensors, const FusedAdamOptions& settings);
void fused_sgd_(const FusedTensors& tensors, const FusedSgdOptions& settings);
void fused_adagrad_(const FusedTensors& tensors, const FusedAdagradOptions& settings);

}  // namespace accelerate::compat
