#include "accelerate/optim/clipping.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_clamp_max.h>
#include <ATen/ops/_foreach_clamp_min.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/clamp_max.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/promote_types.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/parallel/offload/slice_stream.h"

namespace accelerate {
namespace {

// Tensors that one foreach call takes at full speed: of the same device and dtype.
struct Kind {
  c10::Device device;
  at::ScalarType dtype;
  std::vector<at::Tensor> members;
};

std::vector<Kind> by_kind(const std::vector<at::Tensor>& tensors) {
  std::vector<Kind> kinds;
  for (const auto& tensor : tensors) {
    auto kind = std::ranges::find_if(kinds, [&tensor](const Kind& seen) {
      return seen.device == tensor.device() && seen.dtype == tensor.scalar_type();
    });
    if (kind == kinds.end()) {
      kinds.push_back({tensor.device(), tensor.scalar_type(), {}});
      kind = std::prev(kinds.end());
    }
    kind->members.push_back(tensor);
  }
  return kinds;
}

// Returns the elements of `tensor` as a dense tensor. Shares memory with `tensor` if it is dense or
// coalesced; else repeated elements are summed.
at::Tensor values_of(const at::Tensor& tensor) {
  return tensor.is_sparse() ? tensor.coalesce()._values() : tensor;
}

// Returns the existing gradients as dense tensors that share their memory. Coalesces sparse
// gradients, which may list an element in parts: only the sum can be measured.
std::vector<at::Tensor> dense_gradients_of(const std::vector<at::Tensor>& parameters) {
  for (const auto& parameter : parameters) {
    if (!parameter.defined() || !parameter.grad().defined()) continue;
    if (parameter.grad().is_sparse() && !parameter.grad().is_coalesced()) {
      parameter.mutable_grad() = parameter.grad().coalesce();
    }
  }
  auto gradients = detail::gradients_of(parameters);
  for (auto& gradient : gradients) gradient = values_of(gradient);
  return gradients;
}

// Whether LibTorch can compute this norm. For empty tensors it refuses some norms; they add nothing
// to the total.
bool has_norm(const at::Tensor& tensor, double norm_type) {
  return tensor.numel() > 0 || (norm_type >= 0 && std::isfinite(norm_type));
}

bool is_any_in_a_file(const std::vector<at::Tensor>& tensors) {
  return std::ranges::any_of(
      tensors, [](const auto& tensor) { return detail::OffloadStore::holding(tensor) != nullptr; });
}

// Returns one norm per tensor, on `device`.
std::vector<at::Tensor> norms_of(const std::vector<at::Tensor>& tensors, double norm_type,
                                 c10::Device device) {
  std::vector<at::Tensor> norms;
  for (auto& kind : by_kind(tensors)) {
    std::erase_if(kind.members,
                  [norm_type](const at::Tensor& tensor) { return !has_norm(tensor, norm_type); });
    if (kind.members.empty()) continue;
    if (!is_any_in_a_file(kind.members)) {
      for (auto& norm : at::_foreach_norm(kind.members, norm_type))
        norms.push_back(norm.to(device));
      continue;
    }
    detail::visit_in_memory(kind.members, [&](const at::Tensor& tensor) {
      norms.push_back(at::_foreach_norm({tensor}, norm_type).front().to(device));
    });
  }
  return norms;
}

// Stacks tensors of different dtypes in the widest dtype.
at::Tensor stack(std::vector<at::Tensor> scalars) {
  auto dtype = scalars.front().scalar_type();
  for (const auto& scalar : scalars) dtype = at::promote_types(dtype, scalar.scalar_type());
  for (auto& scalar : scalars) scalar = scalar.to(dtype);
  return at::stack(scalars);
}

[[noreturn]] void throw_nonfinite(const std::vector<at::Tensor>& tensors, const at::Tensor& norm) {
  std::string culprit = "no single one is, but their norm overflows";
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (at::isfinite(values_of(tensors[i])).all().item<bool>()) continue;
    culprit = "the first to blame is number " + std::to_string(i) + " of " +
              std::to_string(tensors.size()) + ", of shape " + c10::str(tensors[i].sizes());
    break;
  }
  throw UsageError("the total norm of the gradients is " + c10::str(norm.item<double>()) +
                   ", so they cannot be clipped; " + culprit +
                   ". Look for an overflow or a division by 0 in the loss, or leave out "
                   "error_if_nonfinite to scale by that norm anyway");
}

void check_norm_type(double norm_type) {
  if (std::isnan(norm_type)) {
    throw UsageError(
        "norm_type is NaN; allowed is any number, and infinity for the greatest absolute value");
  }
}

double greatest(at::ScalarType dtype) {
  switch (dtype) {
    case at::kHalf:
      return std::numeric_limits<c10::Half>::max();
    case at::kBFloat16:
      return std::numeric_limits<c10::BFloat16>::max();
    case at::kFloat:
      return std::numeric_limits<float>::max();
    default:
      return std::numeric_limits<double>::max();
  }
}

}  // namespace

namespace detail {

std::vector<at::Tensor> gradients_of(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> found;
  std::unordered_set<const void*> seen;
  for (const auto& parameter : parameters) {
    if (!parameter.defined() || !parameter.grad().defined()) continue;
    if (seen.insert(parameter.unsafeGetTensorImpl()).second) found.push_back(parameter.grad());
  }
  return found;
}

void check_clip_bound(const char* function, const char* name, double bound) {
  if (bound >= 0) return;
  throw UsageError(std::string(function) + ": " + name + " is " + c10::str(bound) +
                   "; allowed is 0 or more. A negative one would reverse gradients");
}

at::Tensor clip_coefficient(const at::Tensor& total_norm, double max_norm) {
  if (max_norm == 0) {  // The reciprocal of a small fp16 number is infinite.
    return at::where(total_norm.isnan(), total_norm, at::zeros_like(total_norm));
  }
  // Python computes number / tensor by the reciprocal, which rounds once more.
  return at::clamp_max((total_norm + 1e-6).reciprocal() * max_norm, 1.0);
}

void multiply_all_(const std::vector<at::Tensor>& tensors, const at::Tensor& factor) {
  for (const auto& kind : by_kind(tensors)) {
    const at::Tensor own = factor.to(kind.device);
    update_in_memory(kind.members,
                     [&own](const auto& members) { at::_foreach_mul_(members, own); });
  }
}

}  // namespace detail

at::Tensor get_total_norm(const std::vector<at::Tensor>& tensors, double norm_type,
                          bool error_if_nonfinite) {
  check_norm_type(norm_type);
  if (tensors.empty()) return at::zeros({}, at::kFloat);
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> dense;
  for (const auto& tensor : tensors) dense.push_back(values_of(tensor));
  auto norms = norms_of(dense, norm_type, tensors.front().device());
  if (norms.empty()) return at::zeros({}, tensors.front().options().dtype(at::kFloat));
  // For norm_type 0 the counts are summed: the 0-norm of the counts would count tensors.
  at::Tensor total = norm_type == 0 ? stack(std::move(norms)).sum()
                                    : at::linalg_vector_norm(stack(std::move(norms)), norm_type);
  if (error_if_nonfinite && !at::isfinite(total).item<bool>()) throw_nonfinite(tensors, total);
  return total;
}

void clip_grads_with_norm_(const std::vector<at::Tensor>& parameters, double max_norm,
                           const at::Tensor& total_norm) {
  detail::check_clip_bound("clip_grad_norm_", "max_norm", max_norm);
  if (std::isinf(max_norm)) return;
  const at::NoGradGuard no_grad;
  const auto coefficient = detail::clip_coefficient(total_norm, max_norm);
  // Multiplying by 1 changes nothing. Reading the number from a GPU would make the CPU wait.
  if (coefficient.is_cpu() && coefficient.item<double>() == 1.0) return;
  detail::multiply_all_(dense_gradients_of(parameters), coefficient);
}

at::Tensor clip_grad_norm_(const std::vector<at::Tensor>& parameters, double max_norm,
                           double norm_type, bool error_if_nonfinite) {
  detail::check_clip_bound("clip_grad_norm_", "max_norm", max_norm);
  const auto total = get_total_norm(dense_gradients_of(parameters), norm_type, error_if_nonfinite);
  clip_grads_with_norm_(parameters, max_norm, total);
  return total;
}

at::Tensor clip_grad_norm_(const at::Tensor& parameter, double max_norm, double norm_type,
                           bool error_if_nonfinite) {
  return clip_grad_norm_(std::vector{parameter}, max_norm, norm_type, error_if_nonfinite);
}

void clip_grad_value_(const std::vector<at::Tensor>& parameters, double clip_value) {
  detail::check_clip_bound("clip_grad_value_", "clip_value", clip_value);
  if (std::isinf(clip_value)) return;
  const at::NoGradGuard no_grad;
  const auto kinds = by_kind(dense_gradients_of(parameters));
  for (const auto& kind : kinds) {
    if (at::isComplexType(kind.dtype)) {
      throw UsageError("clip_grad_value_: a gradient is complex (" +
                       std::string(c10::toString(kind.dtype)) +
                       ") and has no order to clamp by; use clip_grad_norm_");
    }
  }
  for (const auto& [device, dtype, members] : kinds) {
    const double bound = std::min(clip_value, greatest(dtype));
    detail::update_in_memory(members, [bound](const auto& here) {
      at::_foreach_clamp_min_(here, -bound);
      at::_foreach_clamp_max_(here, bound);
    });
  }
}

void clip_grad_value_(const at::Tensor& parameter, double clip_value) {
  clip_grad_value_(std::vector{parameter}, clip_value);
}

}  // namespace accelerate

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
