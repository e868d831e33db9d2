#include "accelerate/optim/accelerated_optimizer.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Type.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <typeinfo>
#include <unordered_set>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/logger.h"
#include "accelerate/optim/algorithms/adafactor.h"
#include "accelerate/optim/algorithms/lion.h"
#include "accelerate/optim/algorithms/muon.h"
#include "accelerate/optim/algorithms/muon_with_aux_adam.h"
#include "accelerate/optim/algorithms/schedule_free_adamw.h"
#include "accelerate/optim/algorithms/step_support.h"
#include "accelerate/optim/clips_updates.h"
#include "accelerate/optim/fused_step.h"
#include "accelerate/optim/listed_once.h"
#include "accelerate/optim/offloaded_state.h"
#include "accelerate/optim/optimizer_state.h"
#include "accelerate/optim/sharded_groups.h"
#include "accelerate/parallel/model_parts.h"

namespace accelerate {
namespace {

at::Tensor evaluate(const AcceleratedOptimizer::Closure& closure) {
  if (!closure) return {};
  // As torch::optim does; the caller may have disabled gradients.
  const at::AutoGradMode gradients(true);
  return closure();
}

// Returns the mean of the ranks' losses, the same number on all ranks.
at::Tensor shared_loss(const at::Tensor& loss, Communicator& communicator) {
  if (!loss.defined() || communicator.size() == 1) return loss;
  const at::Tensor mean = loss.detach().to(at::kCPU, at::kDouble, false, /*copy=*/true);
  communicator.all_reduce(mean, ReduceOp::mean).wait();
  return mean.to(loss.options());
}

// Otherwise an autocast scope that outlives the step would keep using the old weights.
struct DropConvertedWeights {
  ~DropConvertedWeights() { at::autocast::clear_cache(); }
};

using Models = std::vector<std::weak_ptr<ModelParts>>;

template <typename Fn>
void for_each_live(const Models& models, Fn&& fn) {
  for (const auto& weak : models) {
    if (const auto model = weak.lock()) fn(model);
  }
}

void remember(Models& models, const std::shared_ptr<ModelParts>& model) {
  std::erase_if(models, [](const auto& weak) { return weak.expired(); });
  const auto is_it = [&](const auto& weak) { return weak.lock() == model; };
  if (std::ranges::none_of(models, is_it)) models.push_back(model);
}

template <typename... Options>
bool are_any_of(const torch::optim::OptimizerOptions& options) {
  return (... || (dynamic_cast<const Options*>(&options) != nullptr));
}

// Whether LibTorch's add_param_group() keeps such options of a group.
bool are_merged(const torch::optim::OptimizerOptions& options) {
  using namespace torch::optim;  // NOLINT(google-build-using-namespace): six classes of it
  return are_any_of<SGDOptions, AdamOptions, AdamWOptions, AdagradOptions, RMSpropOptions,
                    LBFGSOptions>(options);
}

void refuse_incomplete_gradients(const GradientState& state) {
  if (state.gradients_spoilt) {
    throw UsageError(
        "step() after an exception during backward: the gradients are incomplete. Drop them with "
        "zero_grad() where the exception is caught; the window then begins again",
        error_name::kGradientsIncomplete);
  }
  if (state.micro_batch_failed) {
    throw UsageError(
        "step() after a micro-batch that an exception ended: its gradients are incomplete. Run the "
        "micro-batch again under accumulate(), or drop its gradients with zero_grad()",
        error_name::kGradientsIncomplete);
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
  std::int64_t steps = 0;
  std::function<void()> clip = nullptr;  // See clip_before_steps.h.
  Models shown = {};                     // All models that it was told of.
  Models sharded = {};                   // Models whose parts it holds.

  [[nodiscard]] bool scales() const { return scaler && scaler->is_enabled(); }

  // Whether the optimizer evaluates a closure once, before anything else.
  [[nodiscard]] bool calls_closure_once() const {
    const auto& type = typeid(*optimizer);
    return fused || type == typeid(torch::optim::RMSprop) || type == typeid(Adafactor) ||
           type == typeid(Lion) || type == typeid(Muon) || type == typeid(MuonWithAuxAdam) ||
           type == typeid(ScheduleFreeAdamW);
  }

  at::Tensor step_on_gradients() const {
    at::Tensor loss;
    write_over_shards([&] {
      if (fused) return fused->run(*optimizer);
      loss = optimizer->step();
    });
    return loss;
  }

  void set_mode(ModalOptimizer& modal, OptimizerMode mode) const {
    const DropConvertedWeights at_end;
    write_over_shards([&] { modal.set_mode(mode); });
  }

  // Runs `write`, which changes parameters. Informs every sharded model, starting at index `first`.
  void write_over_shards(const std::function<void()>& write, std::size_t first = 0) const {
    for (std::size_t i = first; i < sharded.size(); ++i) {
      if (const auto model = sharded[i].lock())
        return model->update([&] { write_over_shards(write, i + 1); });
    }
    write();
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
    // Over shards a step updates all ranks, so a closure must run before it.
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

  [[nodiscard]] Closure clipping(const Closure& closure) const {
    if (!closure || !clip) return closure;
    return [closure, clips = clip] {
      at::Tensor loss = closure();
      clips();
      return loss;
    };
  }

  [[nodiscard]] Closure sharing(const Closure& closure) const {
    if (!communicator) return closure;
    return [closure, group = communicator] { return shared_loss(closure(), *group); };
  }

  void refuse_closure_under_scaler() const {
    if (!calls_closure_once()) {
      throw UsageError(c10::demangle(typeid(*optimizer).name()) +
                           " with a closure cannot use fp16 loss scaling. It may update parameters "
                           "before a later "
                           "gradient overflows, and then the step cannot be skipped. Set "
                           "mixed_precision to no or "
                           "bf16, which need no scaling",
                       error_name::kMixedPrecision);
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
  if (core_->clip && !closure) core_->clip();
  core_->gradient_state->begin_step("none before optimizer.step()");
  const Closure clipped = core_->clipping(closure);
  at::Tensor loss = core_->scales() ? core_->scaled_step(*this, clipped) : core_->step(clipped);
  if (!core_->step_was_skipped) ++core_->steps;
  return loss;
}

void AcceleratedOptimizer::set_mode(OptimizerMode mode) {
  auto* modal = dynamic_cast<ModalOptimizer*>(&optimizer());
  if (modal != nullptr && !modal->is_in(mode)) core_->set_mode(*modal, mode);
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
  if (auto* updates = dynamic_cast<ClipsUpdates*>(&optimizer())) updates->forget_updates();
  optimizer().zero_grad(set_to_none);
  core_->zero_grad_of_shards(set_to_none);
}

void AcceleratedOptimizer::shard(const std::shared_ptr<ModelParts>& model) {
  remember(core_->shown, model);
  if (!detail::hold_shards(optimizer(), model)) return;
  if (core_->fused) core_->fused->drop_places();
  std::string refusal;
  try {
    detail::reserve_state(optimizer());
    detail::move_state(optimizer());
  } catch (const std::exception& error) {
    refusal = describe(error);
  }
  model->claim(refusal);
  remember(core_->sharded, model);
}

void AcceleratedOptimizer::add_param_group(const torch::optim::OptimizerParamGroup& group) {
  torch::optim::OptimizerParamGroup held = group;
  for_each_live(core_->shown,
                [&](const auto& model) { detail::hold_shards(held.params(), optimizer(), model); });
  optimizer().add_param_group(held);
  if (held.has_options() && !are_merged(held.options()))
    detail::keep_options(held, param_groups().back());
  for (const auto& tie : detail::list_once(optimizer())) {
    get_logger("accelerate.optim").warning(detail::warning_of(tie, {}));
  }
  for_each_live(core_->shown, [&](const auto& model) { shard(model); });
}

std::int64_t AcceleratedOptimizer::step_count() const {
  return core_->steps;
}

bool AcceleratedOptimizer::step_was_skipped() const {
  return core_->step_was_skipped;
}

void AcceleratedOptimizer::unscale_gradients() const {
  if (core_->scaler) core_->scaler->unscale_(&optimizer(), gradients());
}

void AcceleratedOptimizer::take_updates() const {
  auto* updates = dynamic_cast<ClipsUpdates*>(&optimizer());
  if (updates == nullptr || !updates->clips_updates()) return;
  unscale_gradients();
  // A step that is skipped averages nothing in.
  if (core_->scales() && core_->scaler->found_inf(&optimizer())) return;
  for_each_live(core_->sharded, [](const auto& model) { model->follow_leaves(); });
  updates->take_updates();
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

void detail::clip_before_steps(const AcceleratedOptimizer& optimizer, std::function<void()> clip) {
  optimizer.core()->clip = std::move(clip);
}

void AcceleratedOptimizer::share_losses(std::shared_ptr<Communicator> communicator) {
  core_->communicator = std::move(communicator);
}

torch::optim::Optimizer& AcceleratedOptimizer::optimizer() const {
  return *core_->optimizer;
}

detail::FusedStep* AcceleratedOptimizer::fused_step() const {
  return core_->sharded.empty() ? core_->fused.get() : nullptr;
}

const std::shared_ptr<GradScaler>& AcceleratedOptimizer::scaler() const {
  return core_->scaler;
}

}  // namespace accelerate
