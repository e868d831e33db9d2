// The part of the facade that a training step walks through: accumulate, backward, unscale.
#include <ATen/ATen.h>

#include <algorithm>

#include "accelerate/accelerator/accelerator_impl.h"
#include "accelerate/base/error.h"
#include "accelerate/optim/clipping.h"
#include "accelerate/optim/unscaled_clipping.h"

namespace accelerate {
namespace {

std::vector<DistributedDataParallel*> engines_of(
    const std::vector<std::shared_ptr<detail::ModelCore>>& models) {
  std::vector<DistributedDataParallel*> engines;
  for (const auto& core : models) engines.push_back(&core->parallel());
  return engines;
}

// Items are added up over all ranks, and those without inputs would not take part.
void refuse_items_while_joining(bool joining) {
  if (!joining) return;
  throw UsageError(
      "backward was given num_items inside join_uneven_inputs, where ranks without inputs cannot "
      "count; use even_batches = true, or leave num_items out");
}

void refuse_sync_batch_norms(const std::vector<std::shared_ptr<detail::ModelCore>>& models) {
  for (const auto& core : models) {
    if (core->sync_batch_norms().value_or(0) == 0) continue;
    throw UsageError(
        "join_uneven_inputs was given a model with SyncBatchNorm, whose forward needs all ranks; "
        "use BatchNorm, or even_batches = true");
  }
}

std::vector<at::Tensor> gradients_of(
    const std::vector<std::shared_ptr<detail::ModelCore>>& models) {
  std::vector<at::Tensor> gradients;
  for (const auto& core : models) {
    for (const auto& leaf : core->parameters()) {
      if (leaf.grad().defined()) gradients.push_back(leaf.grad());
    }
  }
  return gradients;
}

// What accumulates is scaled; unscaling a part of it would spoil the whole.
void require_complete(const GradientState& state) {
  if (state.sync_gradients) return;
  throw UsageError(
      "gradients are still being accumulated, and unscaling them now would mix them with scaled "
      "ones: unscale and clip only when sync_gradients(), as in `if "
      "(accelerator.sync_gradients()) accelerator.clip_grad_norm_(…)`");
}

}  // namespace

void Accelerator::backward(const at::Tensor& loss, const BackwardOptions& options) {
  const auto models = impl_->live_models();
  at::Tensor scaled = loss;
  if (options.num_items) {
    refuse_items_while_joining(!impl_->joined.expired());
    impl_->items.add(*options.num_items);
  } else {
    impl_->items.add_uncounted();
    if (gradient_accumulation_steps() > 1) scaled = scaled / gradient_accumulation_steps();
  }
  if (impl_->scaler) scaled = impl_->scaler->scale(scaled);
  const BackwardPass pass{.loss = scaled, .retain_graph = options.retain_graph};
  const auto backward = [&] { scaled.backward({}, options.retain_graph, options.create_graph); };
  if (const auto joined = impl_->joined.lock()) {
    joined->run_backward(engines_of(models), pass, backward);
  } else {
    run_backward(engines_of(models), pass, backward);
  }
  if (!sync_gradients()) return;
  if (impl_->items.counting()) impl_->items.normalise(gradients_of(models), communicator());
  impl_->items.reset();
}

JoinScope Accelerator::join_cores(const JoinOptions& join,
                                  std::vector<std::shared_ptr<detail::ModelCore>> cores) {
  if (!impl_->joined.expired()) {
    throw UsageError("join_uneven_inputs inside join_uneven_inputs; give all models to one scope");
  }
  std::shared_ptr<JoinedInputs> inputs;
  if (!join.even_batches.value_or(impl_->options.dataloader_config.even_batches)) {
    refuse_sync_batch_norms(cores);
    std::vector<DistributedDataParallel*> engines = engines_of(cores);
    inputs = std::make_shared<JoinedInputs>(std::move(engines), state().communicator());
  }
  impl_->joined = inputs;
  return {std::move(inputs),
          join,
          {.models = std::move(cores),
           .loaders = impl_->live_loaders(),
           .optimizers = impl_->live_optimizers(),
           .scaler = impl_->scaler,
           .communicator = state().communicator()}};
}

void Accelerator::set_gradient_accumulation_steps(int steps) {
  if (steps < 1) {
    throw ConfigError("gradient_accumulation_steps is " + std::to_string(steps) +
                      "; allowed is 1 or more");
  }
  gradient_state()->accumulation.num_steps = steps;
}

AutocastScope Accelerator::autocast(const AutocastKwargs& kwargs) const {
  return {device().type(), autocast_dtype(impl_->precision), kwargs};
}

AutocastScope Accelerator::autocast() const {
  return autocast(impl_->options.autocast);
}

MixedPrecision Accelerator::mixed_precision() const {
  return impl_->precision;
}

const std::shared_ptr<GradScaler>& Accelerator::scaler() const {
  return impl_->scaler;
}

bool Accelerator::optimizer_step_was_skipped() const {
  return std::ranges::any_of(impl_->live_optimizers(),
                             [](const auto& optimizer) { return optimizer.step_was_skipped(); });
}

void Accelerator::unscale_gradients() {
  for (const auto& optimizer : impl_->live_optimizers()) unscale_gradients(optimizer);
}

void Accelerator::unscale_gradients(const AcceleratedOptimizer& optimizer) {
  if (!impl_->scaler) return;
  require_complete(*gradient_state());
  optimizer.unscale_gradients();
}

at::Tensor Accelerator::clip_grad_norm_(const std::vector<at::Tensor>& parameters, double max_norm,
                                        double norm_type) {
  if (impl_->scaler) require_complete(*gradient_state());
  return detail::unscale_and_clip_grad_norm_(impl_->live_optimizers(), parameters, max_norm,
                                             norm_type);
}

void Accelerator::clip_grad_value_(const std::vector<at::Tensor>& parameters, double clip_value) {
  unscale_gradients();
  accelerate::clip_grad_value_(parameters, clip_value);
}

void Accelerator::free_memory() {
  impl_->models.clear();
  impl_->optimizers->clear();
  impl_->schedulers.clear();
  impl_->loaders.clear();
  impl_->items.reset();
  gradient_state()->reset();
  clear_device_cache();
}

}  // namespace accelerate
