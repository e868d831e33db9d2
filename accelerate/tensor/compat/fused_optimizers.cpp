#include "accelerate/tensor/compat/fused_optimizers.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_fused_adagrad.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>

#include <array>

namespace accelerate::compat {
namespace {

bool has_kernel(const char* name, c10::DispatchKey key) {
  const auto found = c10::Dispatcher::singleton().findSchema({name, ""});
  return found && found->hasKernelForDispatchKey(key);
}

using PerOptimizer = std::array<bool, 4>;  // In the order of FusedOptimizer.

PerOptimizer kernels_for(c10::DispatchKey key) {
  return {has_kernel("aten::_fused_sgd_", key), has_kernel("aten::_fused_adam_", key),
          has_kernel("aten::_fused_adamw_", key), has_kernel("aten::_fused_adagrad_", key)};
}

// Not every version has every kernel on every device.
bool runs_on(FusedOptimizer which, at::DeviceType device) {
  static const PerOptimizer cpu = kernels_for(c10::DispatchKey::CPU);
  static const PerOptimizer cuda = kernels_for(c10::DispatchKey::CUDA);
  const auto i = static_cast<std::size_t>(which);
  return (device == at::kCPU && cpu[i]) || (device == at::kCUDA && cuda[i]);
}

bool is_plain(const at::Tensor& tensor) {
  return tensor.defined() && tensor.layout() == at::kStrided && !tensor.is_neg() &&
         (tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kDouble);
}

// Whether elements correspond when both tensors are read front to back in memory.
bool same_order(const at::Tensor& a, const at::Tensor& b) {
  if (a.is_contiguous() && b.is_contiguous()) return true;
  return a.strides() == b.strides() && b.is_non_overlapping_and_dense();
}

// Calls `kernel` with the rate that the tensors hold, or else with the number.
template <typename Kernel>
void with_rate(const FusedTensors& tensors, double lr, const Kernel& kernel) {
  tensors.rate.defined() ? kernel(tensors.rate) : kernel(lr);
}

}  // namespace

bool can_fuse(FusedOptimizer which, const at::Tensor& parameter) {
  return is_plain(parameter) && runs_on(which, parameter.device().type()) &&
         parameter.is_non_overlapping_and_dense();
}

bool accompanies(const at::Tensor& parameter, const at::Tensor& tensor) {
  return is_plain(tensor) && tensor.scalar_type() == parameter.scalar_type() &&
         tensor.device() == parameter.device() && tensor.sizes() == parameter.sizes() &&
         same_order(parameter, tensor);
}

void fused_adam_(const FusedTensors& t, const FusedAdamOptions& s) {
  with_rate(t, s.lr, [&](const auto& lr) {
    at::_fused_adam_(t.parameters, t.gradients, t.first, t.second, t.third, t.steps, lr, s.beta1,
                     s.beta2, s.weight_decay, s.eps, s.amsgrad, /*maximize=*/false);
  });
}

void fused_adamw_(const FusedTensors& t, const FusedAdamOptions& s) {
  with_rate(t, s.lr, [&](const auto& lr) {
    at::_fused_adamw_(t.parameters, t.gradients, t.first, t.second, t.third, t.steps, lr, s.beta1,
                      s.beta2, s.weight_decay, s.eps, s.amsgrad, /*maximize=*/false);
  });
}

void fused_sgd_(const FusedTensors& t, const FusedSgdOptions& s) {
  with_rate(t, s.lr, [&](const auto& lr) {
    at::_fused_sgd_(t.parameters, t.gradients, t.first, s.weight_decay, s.momentum, lr, s.dampening,
                    s.nesterov, /*maximize=*/false, s.is_first_step);
  });
}

void fused_adagrad_(const FusedTensors& t, const FusedAdagradOptions& s) {
  with_rate(t, s.lr, [&](const auto& lr) {
    at::_fused_adagrad_(t.parameters, t.gradients, t.first, t.steps, lr, s.lr_decay, s.weight_decay,
                        s.eps, /*maximize=*/false);
  });
}

}  // namespace accelerate::compat
