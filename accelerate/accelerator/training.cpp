// The part of the facade that a training step uses: accumulate and backward.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include <algorithm>

#include "accelerate/accelerator/accelerator_impl.h"
#include "accelerate/accelerator/prepared_elsewhere.h"
#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/optim/accelerated_optimizer.h"

namespace accelerate {
namespace {

std::vector<ParallelEngine*> engines_of(
    const std::vector<std::shared_ptr<detail::ModelCore>>& models) {
  std::vector<ParallelEngine*> engines;
  for (const auto& core : models) engines.push_back(core->parallel().engine.get());
  return engines;
}

std::vector<DistributedDataParallel*> replicas_of(
    const std::vector<std::shared_ptr<detail::ModelCore>>& models) {
  std::vector<DistributedDataParallel*> engines;
  for (const auto& core : models) engines.push_back(core->replicas("join_uneven_inputs").get());
  return engines;
}

// Items are summed over all ranks, and ranks without inputs would not take part.
void refuse_items_while_joining(bool joining) {
  if (!joining) return;
  throw UsageError(
      "backward was given num_items inside join_uneven_inputs, where ranks without inputs cannot "
      "count; use even_batches = true, or leave num_items out",
      error_name::kUnevenBatches);
}

void refuse_sync_batch_norms(const std::vector<std::shared_ptr<detail::ModelCore>>& models) {
  for (const auto& core : models) {
    if (core->sync_batch_norms().value_or(0) == 0) continue;
    throw UsageError(
        "join_uneven_inputs was given a model with SyncBatchNorm, whose forward needs all ranks; "
        "use BatchNorm, or even_batches = true",
        error_name::kUnevenBatches);
  }
}

std::vector<at::Tensor> gradients_of(
    const std::vector<std::shared_ptr<detail::ModelCore>>& models) {
  std::vector<at::Tensor> gradients;
  for (const auto& core : models) {
    for (const auto& holder : core->gradient_holders()) {
      if (holder.grad().defined()) gradients.push_back(holder.grad());
    }
  }
  return gradients;
}

// Whether this window has gradients, or lost some in a failed backward.
bool have_gradients(const std::vector<std::shared_ptr<detail::ModelCore>>& models) {
  const auto has_lost = [](const auto& core) {
    return core->parallel().parts->has_lost_gradients();
  };
  return std::ranges::any_of(models, has_lost) || !gradients_of(models).empty();
}

// Refuses in plain words what autograd would refuse in its own words, or accept.
void require_differentiable(const at::Tensor& loss) {
  std::string found;
  if (!loss.defined()) {
    found = "an undefined tensor";
  } else if (loss.numel() != 1) {
    found = "a loss of shape " + std::string(c10::str(loss.sizes())) + "; reduce it, as by mean()";
  } else if (!loss.requires_grad()) {
    found =
        "a loss that depends on no parameter: it was computed under NoGradGuard, detached, or all "
        "parameters are frozen";
  }
  if (found.empty()) return;
  throw UsageError("backward() takes one number to differentiate, and was given " + found);
}

// Gradients that were already unscaled, to which a backward would add scaled gradients.
class UnscaledGradients {
 public:
  UnscaledGradients(const GradScaler* scaler, const std::vector<AcceleratedOptimizer>& optimizers) {
    for (const auto& optimizer : optimizers) {
      if (scaler->is_unscaled(&optimizer.optimizer())) add(optimizer);
    }
  }

  [[nodiscard]] bool changed() const {
    return std::ranges::any_of(seen_, [](const Seen& one) {
      const at::Tensor& now = one.leaf.grad();
      return now.defined() && (!now.is_same(one.gradient) || now._version() != one.version);
    });
  }

 private:
  struct Seen {
    at::Tensor leaf, gradient;
    std::int64_t version = 0;
  };

  void add(const AcceleratedOptimizer& optimizer) {
    for (const auto& group : optimizer.optimizer().param_groups()) {
      for (const auto& leaf : group.params()) {
        const at::Tensor& gradient = leaf.grad();
        seen_.push_back({leaf, gradient, gradient.defined() ? gradient._version() : 0});
      }
    }
  }

  std::vector<Seen> seen_;
};

}  // namespace

void Accelerator::backward(const at::Tensor& loss, const BackwardOptions& options) {
  require_differentiable(loss);
  detail::require_own_loss(*gradient_state(), loss, impl_->live_optimizers(), impl_->scales());
  impl_->ties.warn_of_rest();
  const auto models = impl_->live_models();
  at::Tensor scaled = loss;
  impl_->count(options.num_items, models);
  if (!options.num_items && gradient_accumulation_steps() > 1) {
    scaled = scaled / gradient_accumulation_steps();
  }
  if (impl_->scaler) scaled = impl_->scaler->scale(scaled);
  impl_->run_backward(models, {.loss = scaled, .retain_graph = options.retain_graph},
                      [&] { scaled.backward({}, options.retain_graph, options.create_graph); });
  if (!sync_gradients()) return;
  if (!impl_->items.counting()) return impl_->items.close();
  impl_->items.normalise(gradients_of(models), communicator());
}

void Accelerator::Impl::count(std::optional<std::int64_t> num_items, const Models& models) {
  items.enter(gradient_state->window());
  if (!num_items) return items.add_uncounted();
  refuse_items_while_joining(!joined.expired());
  if (items.normalised() && !gradients_of(models).empty()) {
    throw UsageError(
        "backward() was called with num_items after the step's gradients were already divided by "
        "the number of items. Add the losses and item counts of a micro-batch, then call "
        "backward() once. Or call step() and zero_grad() between the two calls",
        error_name::kGradientAccumulation);
  }
  items.add(*num_items);
}

void Accelerator::Impl::run_backward(const Models& models, const BackwardPass& pass,
                                     const std::function<void()>& backward) {
  auto& spoilt = gradient_state->gradients_spoilt;
  spoilt = spoilt && have_gradients(models);  // Else dropped by hand or with their models.
  const UnscaledGradients unscaled(scaler.get(), scales() ? live_optimizers() : Optimizers());
  gradient_state->begin_backward();
  try {
    if (const auto inputs = joined.lock()) {
      inputs->run_backward(replicas_of(models), pass, backward);
    } else {
      accelerate::run_backward(engines_of(models), pass, backward);
    }
  } catch (...) {
    gradient_state->abandon_backward();
    items.reset();
    throw;
  }
  if (!unscaled.changed()) return compare_at_first_step(models);
  gradient_state->abandon_backward();
  throw UsageError(
      "gradients had been unscaled, by clipping or unscale_gradients(), when backward() added "
      "scaled ones to them: unscale and clip after the last backward of a step. zero_grad() drops "
      "them",
      error_name::kGradientAccumulation);
}

JoinScope Accelerator::join_cores(const JoinOptions& join,
                                  std::vector<std::shared_ptr<detail::ModelCore>> cores) {
  if (!impl_->joined.expired()) {
    throw UsageError("join_uneven_inputs inside join_uneven_inputs; give all models to one scope");
  }
  for (const auto& core : cores)
    detail::require_prepared_by(*gradient_state(), *core, "join_uneven_inputs()");
  std::shared_ptr<JoinedInputs> inputs;
  if (!join.even_batches.value_or(impl_->options.dataloader_config.even_batches)) {
    refuse_sync_batch_norms(cores);
    std::vector<DistributedDataParallel*> engines = replicas_of(cores);
    inputs = std::make_shared<JoinedInputs>(std::move(engines), state().communicator());
  }
  impl_->joined = inputs;
  std::vector<std::shared_ptr<LoaderControl>> loaders;
  for (const auto& loader : impl_->live_loaders()) loaders.push_back(loader.control());
  return {std::move(inputs),
          join,
          {.models = std::move(cores),
           .loaders = std::move(loaders),
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
  auto dtype = autocast_dtype(impl_->precision);
  if (dtype && device().is_cpu()) dtype = impl_->half_on_cpu.without_asking(*dtype);
  return {device().type(), dtype, kwargs};
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

std::vector<AcceleratedOptimizer> Accelerator::optimizers() const {
  return impl_->live_optimizers();
}

bool Accelerator::optimizer_step_was_skipped() const {
  return std::ranges::any_of(impl_->live_optimizers(),
                             [](const auto& optimizer) { return optimizer.step_was_skipped(); });
}

void Accelerator::free_memory() {
  impl_->models.clear();
  impl_->stop_clipping();
  impl_->optimizers->clear();
  impl_->schedulers.clear();
  impl_->loaders.clear();
  impl_->items.reset();
  if (impl_->scaler) impl_->scaler->reset();
  gradient_state()->reset();
  clear_device_cache();
}

}  // namespace accelerate
