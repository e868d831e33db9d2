#include "accelerate/optim/accelerated_optimizer.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Type.h>
#include <torch/optim/rmsprop.h>

#include <algorithm>
#include <typeinfo>
#include <unordered_set>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/logger.h"
#include "accelerate/optim/fused_step.h"
#include "accelerate/optim/listed_once.h"
#include "accelerate/optim/optimizer_state.h"
#include "accelerate/optim/sharded_groups.h"
#include "accelerate/parallel/sharded/fully_sharded_data_parallel.h"

namespace accelerate {
namespace {

at::Tensor evaluate(const AcceleratedOptimizer::Closure& closure) {
  if (!closure) return {};
  const at::AutoGradMode gradients(true);  // as torch::optim does; the caller may have none
  return closure();
}

// The mean of the ranks' losses, the same number on all of them.
at::Tensor shared_loss(const at::Tensor& loss, Communicator& communicator) {
  if (!loss.defined() || communicator.size() == 1) return loss;
  const at::Tensor mean = loss.detach().to(at::kCPU, at::kDouble, false, /*copy=*/true);
  communicator.all_reduce(mean, ReduceOp::mean).wait();
  return mean.to(loss.options());
}

// An autocast scope that outlives the step would go on with the weights as they were before it.
struct DropConvertedWeights {
  ~DropConvertedWeights() { at::autocast::clear_cache(); }
};

using Models = std::vector<std::weak_ptr<FullyShardedDataParallel>>;

template <typename Fn>
void for_each_live(const Models& models, Fn&& fn) {
  for (const auto& weak : models) {
    if (const auto model = weak.lock()) fn(model);
  }
}

void remember(Models& models, const std::shared_ptr<FullyShardedDataParallel>& model) {
  const auto is_it = [&](const auto& weak) { return weak.lock() == model; };
  if (std::ranges::none_of(models, is_it)) models.push_back(model);
}

void refuse_incomplete_gradients(const GradientState& state) {
  if (state.gradients_spoilt) {
    throw UsageError(
        "step() after a micro-batch that an exception ended when its backward had begun: the "
        "gradients hold a part of it. Drop them with zero_grad() where the exception is caught; "
        "the window then begins anew");
  }
  if (state.micro_batch_failed) {
    throw UsageError(
        "step() after a micro-batch that an exception ended: its gradients are incomplete. Run the "
        "micro-batch again under accumulate(), or drop its gradients with zero_grad()");
  }
}

}  // namespace

struct AcceleratedOptimizer::Core {
  torch::optim::Optimizer* optimizer;
  std::shared_ptr<GradientState> gradient_state;
  std::shared_ptr<GradScaler> scaler;
  std::unique_ptr<detail::FusedStep> fused;
  std::shared_ptr<Communicator> communicator = nullptr;
  bool step_was_skipped = false;
  Models shown = {};    // all that it was told of
  Models sharded = {};  // whose parts it holds

  [[nodiscard]] bool scales() const { return scaler && scaler->is_enabled(); }

  // These evaluate a closure once, and before anything else.
  [[nodiscard]] bool calls_closure_once() const {
    return fused || typeid(*optimizer) == typeid(torch::optim::RMSprop);
  }

  at::Tensor step_on_gradients() const { return step_over_shards(0); }

  // Every sharded model is told that its parameters change.
  at::Tensor step_over_shards(std::size_t first) const {
    for (std::size_t i = first; i < sharded.size(); ++i) {
      const auto model = sharded[i].lock();
      if (!model) continue;
      at::Tensor loss;
      model->update([&] { loss = step_over_shards(i + 1); });
      return loss;
    }
    if (!fused) return optimizer->step();
    fused->run(*optimizer);
    return {};
  }

  void zero_grad_of_shards(bool set_to_none) const {
    std::vector<at::Tensor> locals;
    for (const auto& group : optimizer->param_groups()) {
      locals.insert(locals.end(), group.params().begin(), group.params().end());
    }
    for_each_live(sharded, [&](const auto& model) { model->zero_grad(locals, set_to_none); });
  }

  at::Tensor step(const Closure& closure) const {
    const DropConvertedWeights at_end;
    if (!closure) return step_on_gradients();
    // Over shards every step is an update of all ranks, so that a closure runs before it.
    if (!calls_closure_once() && sharded.empty()) return optimizer->step(sharing(closure));
    const auto loss = evaluate(closure);
    step_on_gradients();
    return loss;
  }

  // Unscales, and steps unless a gradient overflowed.
  at::Tensor scaled_step(const AcceleratedOptimizer& handle, const Closure& closure) {
    if (closure) refuse_closure_under_scaler();
    const DropConvertedWeights at_end;
    const at::Tensor loss = evaluate(closure);
    handle.unscale_gradients();
    step_was_skipped = scaler->found_inf(optimizer);
    const at::Tensor stepped = step_was_skipped ? at::Tensor() : step_on_gradients();
    scaler->update(optimizer);
    return closure ? loss : stepped;
  }

  [[nodiscard]] Closure sharing(const Closure& closure) const {
    if (!communicator) return closure;
    return [closure, group = communicator] { return shared_loss(closure(), *group); };
  }

  void refuse_closure_under_scaler() const {
    if (!calls_closure_once()) {
      throw UsageError(
          c10::demangle(typeid(*optimizer).name()) +
          " was given a closure under fp16 loss scaling; it may call it several times between its "
          "updates, and a step that has begun cannot be skipped when a later gradient overflows. "
          "Train it with mixed_precision no or bf16, which need no scaling");
    }
    if (scaler->is_unscaled(optimizer)) {
      throw UsageError(
          "the gradients were unscaled before step(closure) computed new ones: unscale and clip "
          "inside the closure, after accelerator.backward(loss)");
    }
  }
};

AcceleratedOptimizer::AcceleratedOptimizer(torch::optim::Optimizer& optimizer,
                                           std::shared_ptr<GradientState> gradient_state,
                                           std::shared_ptr<GradScaler> scaler,
                                           std::optional<c10::Device> device)
    : core_(std::make_shared<Core>(&optimizer, std::move(gradient_state), std::move(scaler),
                                   detail::FusedStep::of(optimizer))) {
  if (device) {
    map_state_tensors(optimizer, [device](const at::Tensor& tensor) { return tensor.to(*device); });
  }
}

at::Tensor AcceleratedOptimizer::step(const Closure& closure) {
  refuse_incomplete_gradients(*core_->gradient_state);
  if (!core_->gradient_state->sync_gradients) return {};
  core_->gradient_state->begin_step("none before optimizer.step()");
  return core_->scales() ? core_->scaled_step(*this, closure) : core_->step(closure);
}

void AcceleratedOptimizer::zero_grad(bool set_to_none) {
  GradientState& state = *core_->gradient_state;
  if (state.micro_batch_failed || state.gradients_spoilt) {
    state.reset();
  } else if (state.sync_gradients) {
    state.drop_gradients();
  } else {
    return;
  }
  if (core_->scaler) core_->scaler->reset(&optimizer());
  optimizer().zero_grad(set_to_none);
  core_->zero_grad_of_shards(set_to_none);
}

void AcceleratedOptimizer::shard(const std::shared_ptr<FullyShardedDataParallel>& model) {
  remember(core_->shown, model);
  if (!detail::hold_shards(optimizer(), *model)) return;
  model->claim();
  remember(core_->sharded, model);
}

void AcceleratedOptimizer::add_param_group(const torch::optim::OptimizerParamGroup& group) {
  torch::optim::OptimizerParamGroup held = group;
  for_each_live(core_->shown, [&](const auto& model) {
    detail::hold_shards(held.params(), optimizer(), *model);
  });
  optimizer().add_param_group(held);
  for (const auto& tie : detail::list_once(optimizer())) {
    get_logger("accelerate.optim").warning(detail::warning_of(tie, {}));
  }
  for_each_live(core_->shown, [&](const auto& model) { shard(model); });
}

bool AcceleratedOptimizer::step_was_skipped() const {
  return core_->step_was_skipped;
}

void AcceleratedOptimizer::unscale_gradients() const {
  if (core_->scaler) core_->scaler->unscale_(&optimizer(), gradients());
}

std::vector<at::Tensor> AcceleratedOptimizer::gradients() const {
  for_each_live(core_->sharded, [](const auto& model) { model->follow_leaves(); });
  std::vector<at::Tensor> found;
  std::unordered_set<const void*> seen;
  for (const auto& group : optimizer().param_groups()) {
    for (const auto& leaf : group.params()) {
      if (!leaf.grad().defined() || !seen.insert(leaf.unsafeGetTensorImpl()).second) continue;
      found.push_back(leaf.grad());
    }
  }
  return found;
}

void AcceleratedOptimizer::share_losses(std::shared_ptr<Communicator> communicator) {
  core_->communicator = std::move(communicator);
}

torch::optim::Optimizer& AcceleratedOptimizer::optimizer() const {
  return *core_->optimizer;
}

const std::shared_ptr<GradScaler>& AcceleratedOptimizer::scaler() const {
  return core_->scaler;
}

}  // namespace accelerate
