// What prepare() refuses, found before it changes anything.
#include <torch/csrc/jit/api/module.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "accelerate/accelerator/accelerator_impl.h"
#include "accelerate/accelerator/prepared_elsewhere.h"
#include "accelerate/accelerator/resolved_settings.h"
#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/optim/sharded_groups.h"
#include "accelerate/parallel/sharded/wrap_policy.h"

namespace accelerate {
namespace {

// Each model averages the gradients of its parameters, so a parameter of two models would be
// averaged twice.
void require_unshared(const ModuleView& view, const ModuleView& other) {
  for (const auto& [name, parameter] : view.parameters) {
    if (!parameter.requires_grad()) continue;
    for (const auto& [other_name, other_parameter] : other.parameters) {
      if (!parameter.is_same(other_parameter)) continue;
      throw UsageError("parameter '" + name + "' of " + view.class_name + " is also '" +
                       other_name + "' of " + other.class_name +
                       ", which is prepared already, so its gradient would be averaged twice; "
                       "prepare one module that holds both.");
    }
  }
}

// Returns the first of `parameters` that is not among `others`.
const NamedTensor* first_beside(const std::vector<NamedTensor>& parameters,
                                const std::vector<NamedTensor>& others) {
  std::unordered_set<const void*> known;
  for (const auto& other : others) known.insert(other.tensor.unsafeGetTensorImpl());
  for (const auto& parameter : parameters) {
    if (!known.contains(parameter.tensor.unsafeGetTensorImpl())) return &parameter;
  }
  return nullptr;
}

// A parameter that was added later has no place in the reduction of gradients, and one that was
// removed still has its place.
void require_unchanged(const ModuleView& view, const detail::ModelCore& core) {
  const auto* added = first_beside(view.parameters, core.view().parameters);
  const auto* gone = first_beside(core.view().parameters, view.parameters);
  if (added == nullptr && gone == nullptr) return;
  throw UsageError("parameter '" + (added != nullptr ? added : gone)->name + "' of " +
                   view.class_name + " was " +
                   (added != nullptr ? "put into the module" : "taken out of the module") +
                   " after this was prepared, so that ranks would not train as one. Change a "
                   "module before prepare(), or call free_memory() and prepare module and "
                   "optimizer again");
}

using Addresses = std::unordered_set<const void*>;

Addresses divided_leaves(const std::vector<ModuleView>& views,
                         const ResolvedFsdpOptions& settings) {
  Addresses leaves;
  for (const auto& view : views) {
    const auto parameters = without_duplicates(view.parameters);
    for (const auto& unit : detail::plan_units(view, settings))
      for (const std::size_t i : unit.parameters)
        leaves.insert(parameters[i].tensor.unsafeGetTensorImpl());
  }
  return leaves;
}

// Returns whether sharding by `settings` will divide a leaf of `views`. Plans when first called,
// because a plan may warn.
std::function<bool(const at::Tensor&)> will_be_divided(const std::vector<ModuleView>& views,
                                                       const ResolvedFsdpOptions& settings) {
  return [&, leaves = std::optional<Addresses>()](const at::Tensor& leaf) mutable {
    if (!leaves) leaves = divided_leaves(views, settings);
    return leaves->contains(leaf.unsafeGetTensorImpl());
  };
}

}  // namespace

detail::GivenObject detail::given_module(const torch::nn::Module& module) {
  auto& whole = const_cast<torch::nn::Module&>(module);  // view_of() changes nothing.
  return {.kind = kModelKind, .module = &module, .view = [&whole] { return view_of(whole); }};
}

detail::GivenObject detail::given_module(const torch::jit::Module& module) {
  auto& whole = const_cast<torch::jit::Module&>(module);
  return {.kind = kModelKind, .module = module._ivalue().get(), .view = [&whole] {
            return view_of(whole);
          }};
}

void Accelerator::check_before_preparing(const std::vector<detail::GivenObject>& objects) {
  compare_before_preparing(objects);
  impl_->require_preparable(objects);
}

void Accelerator::Impl::require_preparable(const std::vector<detail::GivenObject>& objects) {
  std::vector<ModuleView> models;
  for (const auto& object : objects) {
    if (!object.view) continue;
    ModuleView view = object.view();
    require_preparable(object.module, view);
    const auto is_it = [&](const auto& core) { return core->module() == object.module; };
    if (std::ranges::any_of(live_models(), is_it)) continue;
    for (const auto& earlier : models) require_unshared(view, earlier);
    models.push_back(std::move(view));
  }
  for (const auto& object : objects) {
    if (object.optimizer != nullptr) require_preparable(*object.optimizer, models);
    if (object.loader != nullptr) require_preparable(*object.loader);
  }
}

void Accelerator::Impl::require_preparable(const void* module, const ModuleView& view) {
  const auto live = live_models();
  for (const auto& core : live) {
    if (core->module() == module) return require_unchanged(view, *core);
  }
  for (const auto& core : live) require_unshared(view, core->view());
  if (!fsdp) return;
  const std::vector<ModuleView> views = {view};
  const auto is_divided = will_be_divided(views, *fsdp);
  for (const auto& optimizer : live_optimizers())
    detail::require_may_hold(optimizer.optimizer(), is_divided);
}

torch::optim::Optimizer& Accelerator::Impl::real_optimizer(torch::optim::Optimizer& given,
                                                           const std::vector<ModuleView>& beside) {
  const auto place_in = [](const ModuleView& view,
                           const at::Tensor& leaf) -> std::optional<ParameterPlace> {
    for (const auto& [name, parameter] : view.parameters)
      if (parameter.is_same(leaf)) return ParameterPlace{name, leaf.sizes().vec()};
    return std::nullopt;
  };
  const auto find = [&](const at::Tensor& leaf) -> std::optional<ParameterPlace> {
    for (const auto& core : live_models()) {
      const NamedShard* const shard = core->parallel().parts->shard_of(leaf);
      if (shard != nullptr) return ParameterPlace{shard->name, shard->shape};
      if (auto place = place_in(core->view(), leaf)) return place;
    }
    for (const auto& view : beside)
      if (auto place = place_in(view, leaf)) return place;
    return std::nullopt;
  };
  return detail::real_optimizer(given, deepspeed, find);
}

void Accelerator::Impl::require_preparable(torch::optim::Optimizer& given,
                                           const std::vector<ModuleView>& beside) {
  torch::optim::Optimizer& optimizer = real_optimizer(given, beside);
  const auto live = live_models();
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      const auto has_it = [&](const auto& core) {
        return core->parallel().parts->ranks_of(parameter) != nullptr;
      };
      if (std::ranges::any_of(live, has_it) || !detail::is_shard(parameter)) continue;
      throw UsageError(
          "prepare() was given an optimizer of parameters that another Accelerator has sharded, or "
          "this one before free_memory(): prepare a model and its optimizer with one Accelerator",
          error_name::kNotPrepared);
    }
  }
  for (const auto& core : live) {
    detail::require_may_hold(optimizer, [&](const at::Tensor& leaf) {
      return core->parallel().parts->shard_of(leaf) != nullptr;
    });
  }
  if (fsdp) detail::require_may_hold(optimizer, will_be_divided(beside, *fsdp));
}

void Accelerator::Impl::require_preparable(const detail::LoaderPlan& loader) const {
  (void)loader.prepared({.rank = state.process_index(),
                         .world_size = state.num_processes(),
                         .config = options.dataloader_config,
                         .communicator = state.communicator()});
}

}  // namespace accelerate
