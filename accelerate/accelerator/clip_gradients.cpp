// The part of the facade that looks at gradients between backward and step: unscale and clip.
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_set>
#include <vector>

#include "accelerate/accelerator/accelerator_impl.h"
#include "accelerate/accelerator/prepared_elsewhere.h"
#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/optim/clipping.h"

namespace accelerate {
namespace {

// Accumulating gradients are scaled; unscaling part of them would spoil the whole.
void require_complete(const GradientState& state) {
  if (state.sync_gradients) return;
  throw UsageError(
      "gradients are still being accumulated, and unscaling them now would mix them with scaled "
      "ones: unscale and clip only when sync_gradients(), as in `if "
      "(accelerator.sync_gradients()) accelerator.clip_grad_norm_(…)`",
      error_name::kGradientAccumulation);
}

}  // namespace

void Accelerator::unscale_gradients() {
  for (const auto& optimizer : impl_->live_optimizers()) unscale_gradients(optimizer);
}

void Accelerator::unscale_gradients(const AcceleratedOptimizer& optimizer) {
  const auto& scaler = optimizer.scaler();
  if (scaler != impl_->scaler && scaler && scaler->is_enabled()) {
    throw UsageError(
        "unscale_gradients() was given an optimizer that another Accelerator has prepared, and "
        "whose gradients only that Accelerator can unscale: call it on that Accelerator");
  }
  if (!impl_->scales()) return;
  require_complete(*gradient_state());
  gradient_state()->begin_step("unscale_gradients()");
  optimizer.unscale_gradients();
}

at::Tensor Accelerator::clip_grad_norm_(const std::vector<at::Tensor>& parameters, double max_norm,
                                        double norm_type) {
  impl_->loop_clips = true;
  return impl_->clip_grad_norm(parameters, max_norm, norm_type);
}

at::Tensor Accelerator::Impl::clip_grad_norm(const std::vector<at::Tensor>& parameters,
                                             double max_norm, double norm_type) {
  if (scales()) require_complete(*gradient_state);
  const auto parts = gradient_parts(parameters, "clip_grad_norm_()");
  // Otherwise only the norm is asked for.
  if (gradient_state->at_first_step && std::isfinite(max_norm)) {
    note_clipping("clip_grad_norm_ with max_norm " + detail::text_of(max_norm) + " and norm_type " +
                      detail::text_of(norm_type),
                  parts);
  }
  for (const auto& part : parts)
    for (const auto& optimizer : holding(part.holders)) optimizer.take_updates();
  if (parts.size() == 1 && parts.front().ranks == nullptr) {
    return detail::unscale_and_clip_grad_norm_(optimizers_of(parameters), parameters, max_norm,
                                               norm_type);
  }
  for (const auto& part : parts) {
    for (const auto& optimizer : optimizers_of(part.holders)) optimizer.unscale_gradients();
  }
  return detail::clip_grad_norm_of_parts_(parts, *state.communicator(), max_norm, norm_type);
}

void Accelerator::Impl::stop_clipping() {
  for (const auto& optimizer : live_optimizers()) detail::clip_before_steps(optimizer, nullptr);
}

void Accelerator::Impl::clip_steps_of(const AcceleratedOptimizer& optimizer) {
  const double max_norm = deepspeed ? deepspeed->gradient_clipping : 0;
  if (max_norm == 0) return;
  detail::clip_before_steps(optimizer, [this, max_norm, &stepped = optimizer.optimizer()] {
    clip_at_step(stepped, max_norm);
  });
}

void Accelerator::Impl::clip_at_step(torch::optim::Optimizer& optimizer, double max_norm) {
  if (!loop_clips) clip_grad_norm(parameters_of(optimizer), max_norm, 2);
}

std::vector<at::Tensor> Accelerator::Impl::parameters_of(torch::optim::Optimizer& optimizer) {
  std::unordered_set<const void*> stepped;
  for (const auto& group : optimizer.param_groups())
    for (const auto& leaf : group.params()) stepped.insert(leaf.unsafeGetTensorImpl());
  std::vector<at::Tensor> parameters;
  for (const auto& core : live_models()) {
    ModelParts& parts = *core->parallel().parts;
    parts.follow_leaves();
    for (const auto& [name, parameter] : core->view().parameters) {
      const at::Tensor& held = parts.local_parameter(parameter);
      if (stepped.erase(held.unsafeGetTensorImpl()) > 0) parameters.push_back(parameter);
    }
  }
  for (const auto& group : optimizer.param_groups())
    for (const auto& leaf : group.params())
      if (stepped.erase(leaf.unsafeGetTensorImpl()) > 0) parameters.push_back(leaf);
  return parameters;
}

void Accelerator::clip_grad_value_(const std::vector<at::Tensor>& parameters, double clip_value) {
  if (impl_->scales()) require_complete(*gradient_state());
  const auto parts = impl_->gradient_parts(parameters, "clip_grad_value_()");
  if (gradient_state()->at_first_step && std::isfinite(clip_value)) {
    impl_->note_clipping("clip_grad_value_ with clip_value " + detail::text_of(clip_value), parts);
  }
  for (const auto& part : parts) {
    for (const auto& optimizer : impl_->optimizers_of(part.holders)) optimizer.unscale_gradients();
    accelerate::clip_grad_value_(part.holders, clip_value);
  }
}

// If clipping communicates, ranks compare immediately; otherwise in the step that follows, because
// one rank alone may ask for a norm.
void Accelerator::Impl::note_clipping(const std::string& clipping,
                                      const std::vector<detail::GradientPart>& parts) {
  const bool is_sharded = std::ranges::any_of(
      parts, [](const detail::GradientPart& part) { return part.ranks != nullptr; });
  if (is_sharded || scales()) {
    gradient_state->begin_step(clipping);
  } else {
    clipping_before_step = clipping;
  }
}

// Takes this rank's part of each sharded parameter, with the group of ranks that have the rest.
std::vector<detail::GradientPart> Accelerator::Impl::gradient_parts(
    const std::vector<at::Tensor>& parameters, const char* call) {
  std::vector<detail::GradientPart> parts(1);
  const auto models = live_models();
  for (const auto& core : models) core->parallel().parts->follow_leaves();
  for (const auto& parameter : parameters) {
    const auto owner = std::ranges::find_if(models, [&](const auto& core) {
      return core->parallel().parts->ranks_of(parameter) != nullptr;
    });
    if (owner == models.end()) {
      parts.front().holders.push_back(parameter);
      continue;
    }
    const ModelParts& divided = *(*owner)->parallel().parts;
    detail::part_over(parts, *divided.ranks_of(parameter))
        .holders.push_back(divided.local_parameter(parameter));
  }
  detail::require_own_gradients(*gradient_state, parts.front().holders, live_optimizers(), call);
  return parts;
}

Accelerator::Impl::Optimizers Accelerator::Impl::optimizers_of(
    const std::vector<at::Tensor>& parameters) {
  return scales() ? holding(parameters) : Optimizers();  // Otherwise nothing to unscale.
}

Accelerator::Impl::Optimizers Accelerator::Impl::holding(
    const std::vector<at::Tensor>& parameters) {
  std::unordered_set<const void*> wanted;
  for (const auto& parameter : parameters) wanted.insert(parameter.unsafeGetTensorImpl());
  const auto is_wanted = [&](const at::Tensor& leaf) {
    return wanted.contains(leaf.unsafeGetTensorImpl());
  };
  auto found = live_optimizers();
  std::erase_if(found, [&](const AcceleratedOptimizer& optimizer) {
    return std::ranges::none_of(optimizer.optimizer().param_groups(), [&](const auto& group) {
      return std::ranges::any_of(group.params(), is_wanted);
    });
  });
  return found;
}

}  // namespace accelerate
