// The part of the facade that a training step uses: accumulate, backward, unscale.
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "accelerate/accelerator/accelerator_impl.h"
#include "accelerate/accelerator/prepared_elsewhere.h"
#include "accelerate/base/error.h"
#include "accelerate/optim/accelerated_optimizer.h"
#include "accelerate/optim/clipping.h"

namespace accelerate {
namespace {

std::vector<ParallelEngine*> engines_of(
    const std::vector<std::shared_ptr<detail::ModelCore>>& models) {
  std::vector<ParallelEngine*> engines;
  for (const auto& core : models) engines.push_back(&core->parallel());
  return engines;
}

std::vector<DistributedDataParallel*> replicas_of(
    const std::vector<std::shared_ptr<detail::ModelCore>>& models) {
  std::vector<DistributedDataParallel*> engines;
  for (const auto& core : models)
    engines.push_back(&core->parallel().replicated("join_uneven_inputs"));
  return engines;
}

// Items are summed over all ranks, and ranks without inputs would not take part.
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
    for (const auto& holder : core->gradient_holders()) {
      if (holder.grad().defined()) gradients.push_back(holder.grad());
    }
  }
  return gradients;
}

// Whether this window has gradients, or lost some in a failed backward.
bool have_gradients(const std::vector<std::shared_ptr<detail::ModelCore>>& models) {
  const auto has_lost = [](const auto& core) { return core->parallel().has_lost_gradients(); };
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

// Accumulating gradients are scaled; unscaling part of them would spoil the whole.
void require_complete(const GradientState& state) {
  if (state.sync_gradients) return;
  throw UsageError(
      "gradients are still being accumulated, and unscaling them now would mix them with scaled "
      "ones: unscale and clip only when sync_gradients(), as in `if "
      "(accelerator.sync_gradients()) accelerator.clip_grad_norm_(…)`");
}

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
        "backward() once. Or call step() and zero_grad() between the two calls");
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
      "them");
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

void Accelerator::unscale_gradients() {
  for (const auto& optimizer : impl_->live_optimizers()) unscale_gradients(optimizer);
}

void Accelerator::unscale_gradients(const AcceleratedOptimizer& optimizer) {
  const auto& scaler = optimizer.scaler();
  if (scaler != impl_->scaler && scaler && scaler->is_enabled()) {
    throw UsageError(
        "unscale_gradients() was given an optimizer that another Accelerator has prepared, and "
        "whose gradients only that one can unscale: call it on that one");
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
  if (parts.size() == 1 && parts.front().ranks == nullptr) {
    return detail::unscale_and_clip_grad_norm_(optimizers_of(parameters), parameters, max_norm,
                                               norm_type);
  }
  for (const auto& part : parts) {
    for (const auto& optimizer : optimizers_of(part.holders)) optimizer.unscale_gradients();
  }
  return detail::clip_grad_norm_of_parts_(parts, *state.communicator(), max_norm, norm_type);
}

// Optimizers may live longer.
Accelerator::Impl::~Impl() {
  gradient_state->at_first_step = nullptr;
  stop_clipping();
}

void Accelerator::Impl::stop_clipping() {
  for (const auto& optimizer : live_optimizers()) detail::clip_before_steps(optimizer, nullptr);
}

void Accelerator::Impl::clip_steps_of(const AcceleratedOptimizer& optimizer) {
  if (clipping == 0) return;
  detail::clip_before_steps(optimizer,
                            [this, &stepped = optimizer.optimizer()] { clip_at_step(stepped); });
}

void Accelerator::Impl::clip_at_step(torch::optim::Optimizer& optimizer) {
  if (!loop_clips) clip_grad_norm(parameters_of(optimizer), clipping, 2);
}

std::vector<at::Tensor> Accelerator::Impl::parameters_of(torch::optim::Optimizer& optimizer) {
  std::unordered_set<const void*> stepped;
  for (const auto& group : optimizer.param_groups())
    for (const auto& leaf : group.params()) stepped.insert(leaf.unsafeGetTensorImpl());
  std::vector<at::Tensor> parameters;
  for (const auto& core : live_models()) {
    const ParallelEngine& engine = core->parallel();
    core->parallel().follow_leaves();
    for (const auto& [name, parameter] : core->view().parameters) {
      const bool is_whole = engine.ranks_of(parameter) == nullptr;
      const at::Tensor& held = is_whole ? parameter : engine.local_parameter(parameter);
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
  for (const auto& core : models) core->parallel().follow_leaves();
  for (const auto& parameter : parameters) {
    const auto owner = std::ranges::find_if(
        models, [&](const auto& core) { return core->parallel().ranks_of(parameter) != nullptr; });
    if (owner == models.end()) {
      parts.front().holders.push_back(parameter);
      continue;
    }
    const ParallelEngine& engine = (*owner)->parallel();
    detail::part_over(parts, *engine.ranks_of(parameter))
        .holders.push_back(engine.local_parameter(parameter));
  }
  detail::require_own_gradients(*gradient_state, parts.front().holders, live_optimizers(), call);
  return parts;
}

Accelerator::Impl::Optimizers Accelerator::Impl::optimizers_of(
    const std::vector<at::Tensor>& parameters) {
  if (!scales()) return {};  // Nothing to unscale.
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
