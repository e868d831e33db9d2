#include "accelerate/optim/unscaled_clipping.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/isfinite.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "accelerate/optim/clipping.h"

namespace accelerate::detail {
namespace {

using Gradients = std::vector<at::Tensor>;

// Sorts addresses, so that two lists of the same gradients compare equal.
std::vector<const void*> identities(const Gradients& gradients) {
  std::vector<const void*> found;
  for (const auto& gradient : gradients) found.push_back(gradient.unsafeGetTensorImpl());
  std::ranges::sort(found);
  return found;
}

// Whether it is dense and of a dtype with enough range for a large scale.
bool is_plain(const at::Tensor& gradient) {
  return gradient.layout() == at::kStrided &&
         (gradient.scalar_type() == at::kFloat || gradient.scalar_type() == at::kDouble);
}

// Whether scaling by `scale` changes only exponents and makes nothing underflow.
bool is_harmless(double scale) {
  int exponent = 0;
  return scale >= 1 && std::frexp(scale, &exponent) == 0.5;
}

// Returns the scaler if it has to unscale exactly `gradients`, and dividing the norm instead gives
// the same bits; else null.
GradScaler* mergeable(const std::vector<AcceleratedOptimizer>& optimizers,
                      const Gradients& gradients, double norm_type) {
  if (optimizers.size() != 1 || gradients.empty() || !(norm_type >= 1)) return nullptr;
  const auto& optimizer = optimizers.front();
  GradScaler* scaler = optimizer.scaler().get();
  if (scaler == nullptr || !scaler->is_enabled() || scaler->is_unscaled(&optimizer.optimizer()) ||
      !scaler->gradient_scale().defined() || !std::ranges::all_of(gradients, is_plain) ||
      identities(optimizer.gradients()) != identities(gradients) ||
      !is_harmless(scaler->gradient_scale().item<float>())) {
    return nullptr;
  }
  return scaler;
}

// Returns the norm before clipping, or nullopt if it overflows and must be measured unscaled.
std::optional<at::Tensor> merged(GradScaler& scaler, const void* optimizer,
                                 const Gradients& gradients, double max_norm, double norm_type) {
  const at::Tensor scaled = get_total_norm(gradients, norm_type);
  if (!at::isfinite(scaled).item<bool>()) return std::nullopt;
  scaler.record_check(optimizer, false);
  const double inverse = 1 / scaler.gradient_scale().item<double>();
  const at::Tensor total = scaled * inverse;
  multiply_all_(gradients, clip_coefficient(total, max_norm) * inverse);
  return total;
}

}  // namespace

at::Tensor unscale_and_clip_grad_norm_(const std::vector<AcceleratedOptimizer>& optimizers,
                                       const std::vector<at::Tensor>& parameters, double max_norm,
                                       double norm_type) {
  check_clip_bound("clip_grad_norm_", "max_norm", max_norm);
  const at::NoGradGuard no_grad;
  const auto gradients = gradients_of(parameters);
  if (auto* scaler = mergeable(optimizers, gradients, norm_type)) {
    const void* optimizer = &optimizers.front().optimizer();
    if (auto total = merged(*scaler, optimizer, gradients, max_norm, norm_type)) return *total;
  }
  for (const auto& optimizer : optimizers) optimizer.unscale_gradients();
  return clip_grad_norm_(parameters, max_norm, norm_type);
}

}  // namespace accelerate::detail
