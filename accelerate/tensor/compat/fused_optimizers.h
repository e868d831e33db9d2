// LibTorch's fused optimizer kernels: one sweep over parameters, gradients and moments instead of
// one for each arithmetic operation. They are internals of LibTorch (versions 2.11 to 2.13 are
// known here), so their schemas, their gaps and their faults are dealt with in this file alone.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace accelerate::compat {

enum class FusedOptimizer { sgd, adam, adamw, adagrad };

/// Whether this LibTorch has a kernel that does with `parameter` what torch::optim's arithmetic
/// does: a real fp32 or fp64 tensor, dense in memory, on the CPU or a GPU. Others are left out
/// because the CPU kernels check little: in 2.13 SGD moves no fp16 or bf16 parameter at all, and
/// eps vanishes in fp16. Local; nanoseconds.
[[nodiscard]] bool can_fuse(FusedOptimizer which, const at::Tensor& parameter);

/// Whether `tensor` (a gradient, a moment) can accompany `parameter`: defined, and of the same
/// kind, device, dtype, shape and order in memory. The kernels read all of them front to back, so
/// that a transposed gradient would meet the wrong elements. Local; nanoseconds.
[[nodiscard]] bool accompanies(const at::Tensor& parameter, const at::Tensor& tensor);

/// The greatest step number that the kernels, which count in fp32, count exactly.
inline constexpr std::int64_t kLastFusedStep = std::int64_t{1} << 24;

/// Tensors of one step, position by position. Parameters can_fuse, all are of one device and dtype
/// and accompany their parameter. Lists that an optimizer does not use stay empty.
struct FusedTensors {
  std::vector<at::Tensor> parameters, gradients;
  std::vector<at::Tensor> first;   ///< Momentum buffers, exp_avg, or sums.
  std::vector<at::Tensor> second;  ///< exp_avg_sq of Adam and AdamW.
  std::vector<at::Tensor> third;   ///< max_exp_avg_sq of the same, with amsgrad.
  std::vector<at::Tensor> steps;   ///< Shape {}, fp32; the number of this step, from 1 up.
};

struct FusedAdamSettings {
  double lr, beta1, beta2, weight_decay, eps;
  bool amsgrad;
};
struct FusedSgdSettings {
  double lr, momentum, dampening, weight_decay;
  bool nesterov;
  bool is_first_step;  ///< The buffers hold nothing yet and become the gradients.
};
struct FusedAdagradSettings {
  double lr, lr_decay, weight_decay, eps;
};

// One step, in place. Gradients are read only. Version counters of the parameters do not move.
// Source: aten/src/ATen/native/Fused*.cpp, torch/optim/{adam,adamw,sgd,adagrad}.py (fused=True).
void fused_adam_(const FusedTensors& tensors, const FusedAdamSettings& settings);
void fused_adamw_(const FusedTensors& tensors, const FusedAdamSettings& settings);
void fused_sgd_(const FusedTensors& tensors, const FusedSgdSettings& settings);
void fused_adagrad_(const FusedTensors& tensors, const FusedAdagradSettings& settings);

}  // namespace accelerate::compat
