#include "accelerate/optim/sharded_groups.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full_like.h>
#include <c10/util/Type.h>

#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/optim/optimizer_fields.h"
#include "accelerate/optim/whole_matrix_optimizer.h"
#include "accelerate/parallel/model_parts.h"

namespace accelerate::detail {
namespace {

struct GroupRegistry {
  std::mutex mutex;
  std::set<std::type_index> elementwise;
};

GroupRegistry& group_registry() {
  static GroupRegistry instance;
  return instance;
}

bool may_hold_parts(const torch::optim::Optimizer& optimizer) {
  if (dynamic_cast<const WholeMatrixOptimizer*>(&optimizer) != nullptr) return true;
  const std::type_index type = typeid(optimizer);
  for (const std::type_info* known :
       {&typeid(torch::optim::SGD), &typeid(torch::optim::Adam), &typeid(torch::optim::AdamW),
        &typeid(torch::optim::Adagrad), &typeid(torch::optim::RMSprop), &typeid(accelerate::Lion),
        &typeid(accelerate::ScheduleFreeAdamW)}) {
    if (type == *known) return true;
  }
  const std::lock_guard lock(group_registry().mutex);
  return group_registry().elementwise.contains(type);
}

void require_may_hold_parts(const torch::optim::Optimizer& optimizer) {
  if (may_hold_parts(optimizer)) return;
  const std::string what =
      c10::demangle(typeid(optimizer).name()) +
      " was prepared with a sharded model, of whose parameters every rank has a part. SGD, Adam, "
      "AdamW, Adagrad, RMSprop, Lion and ScheduleFreeAdamW update each element by itself and may "
      "be, and Muon brings matrices together; ";
  if (dynamic_cast<const accelerate::Adafactor*>(&optimizer) != nullptr)
    throw ConfigError(what +
                      "Adafactor, which averages over rows and columns of whole matrices, "
                      "may not. Choose one of them, or train without sharding");
  throw UsageError(what +
                   "LBFGS and others that look at more than one element may not. If yours updates "
                   "elements one by one, say so by "
                   "register_elementwise_optimizer<YourOptimizer>(); if it needs whole matrices, "
                   "derive it from WholeMatrixOptimizer");
}

bool is_cuttable(const torch::optim::OptimizerParamState& state) {
  return any_optimizer_kind([&]<typename Kind>(Kind) {
    return dynamic_cast<const typename Kind::State*>(&state) != nullptr;
  });
}

void require_cuttable(const torch::optim::OptimizerParamState& state,
                      const torch::optim::Optimizer& optimizer) {
  if (is_cuttable(state)) return;
  throw UsageError(c10::demangle(typeid(optimizer).name()) +
                   " was prepared with a sharded model after it had made steps, and remembers them "
                   "in " +
                   c10::demangle(typeid(state).name()) +
                   ", which cannot be divided among ranks. Hand it to prepare() before its first "
                   "step");
}

// Checks, before anything is changed, that the optimizer may hold parts and its state can be cut.
void require_shardable(torch::optim::Optimizer& optimizer, const ModelParts& model) {
  require_may_hold_parts(optimizer);
  accelerate::detail::require_may_hold(
      optimizer, [&](const at::Tensor& leaf) { return model.shard_of(leaf) != nullptr; });
}

// Cuts the part for `shard` out of each state tensor that is as large as the parameter.
struct CutState {
  const NamedShard& shard;

  void operator()(const char*, at::Tensor& tensor) const {
    if (!tensor.defined() || tensor.numel() != c10::multiply_integers(shard.shape)) return;
    tensor = tensor.contiguous()
                 .view({-1})
                 .narrow(0, shard.begin, shard.local.numel())
                 .to(shard.local.device(), shard.local.scalar_type())
                 .clone();
  }
  template <typename Other>
  void operator()(const char*, Other&) const {}
};

void cut_state(torch::optim::OptimizerParamState& state, const NamedShard& shard) {
  const at::NoGradGuard no_grad;
  const CutState cut{shard};
  any_optimizer_kind([&]<typename Kind>(Kind) {
    auto* typed = dynamic_cast<typename Kind::State*>(&state);
    if (typed != nullptr) Kind::state(*typed, cut);
    return typed != nullptr;
  });
}

// For a model without memory, fills in the state that Adagrad's constructor would have made.
void fill_in_state(torch::optim::OptimizerParamState& state,
                   const torch::optim::OptimizerOptions& defaults, const NamedShard& shard) {
  auto* adagrad = dynamic_cast<torch::optim::AdagradParamState*>(&state);
  if (adagrad == nullptr || !adagrad->sum().defined() || !adagrad->sum().is_meta()) return;
  const auto& options = static_cast<const torch::optim::AdagradOptions&>(defaults);
  const at::NoGradGuard no_grad;
  adagrad->sum(at::full_like(shard.local, options.initial_accumulator_value()));
}

void move_state(torch::optim::Optimizer& optimizer, const at::Tensor& leaf,
                const NamedShard& shard) {
  auto& states = optimizer.state();
  const auto found = states.find(leaf.unsafeGetTensorImpl());
  if (found == states.end()) return;
  auto state = std::move(found->second);
  states.erase(found);
  if (state) {
    fill_in_state(*state, optimizer.defaults(), shard);
    cut_state(*state, shard);
  }
  states[shard.local.unsafeGetTensorImpl()] = std::move(state);
}

// Replaces leaves by this rank's parts. If several leaves share memory, the first gets the
// gradients of all, and the others are removed. The list names no tensor twice; see listed_once.h.
class PartsForLeaves {
 public:
  PartsForLeaves(torch::optim::Optimizer& optimizer, const std::shared_ptr<ModelParts>& model)
      : optimizer_(optimizer),
        matrices_(dynamic_cast<WholeMatrixOptimizer*>(&optimizer)),
        model_(model) {}

  void put_into(std::vector<at::Tensor>& parameters) {
    std::erase_if(parameters, [this](at::Tensor& parameter) { return !keep(parameter); });
  }
  // Whether it found a leaf, or a part that had already replaced a leaf.
  [[nodiscard]] bool found_any() const { return found_any_; }

 private:
  bool keep(at::Tensor& parameter) {
    if (model_->ranks_of(parameter) == nullptr) return true;
    const NamedShard* const shard = model_->shard_of(parameter);
    if (!std::exchange(found_any_, true)) require_shardable(optimizer_, *model_);
    if (shard == nullptr) {
      placed_.emplace(parameter.unsafeGetTensorImpl(), parameter.unsafeGetTensorImpl());
      return true;
    }
    const void* const leaf = parameter.unsafeGetTensorImpl();
    const auto place = placed_.emplace(shard->local.unsafeGetTensorImpl(), leaf);
    if (place.first->second != leaf) {
      optimizer_.state().erase(parameter.unsafeGetTensorImpl());
      return false;
    }
    move_state(optimizer_, parameter, *shard);
    if (matrices_ != nullptr) matrices_->hold_part(*shard, model_);
    parameter = shard->local;
    return true;
  }

  torch::optim::Optimizer& optimizer_;
  WholeMatrixOptimizer* matrices_;  // Null for other optimizers.
  const std::shared_ptr<ModelParts>& model_;
  // From a part to the leaf that it replaces.
  std::unordered_map<const void*, const void*> placed_;
  bool found_any_ = false;
};

}  // namespace

void register_elementwise(std::type_index type) {
  const std::lock_guard lock(group_registry().mutex);
  group_registry().elementwise.insert(type);
}

void require_may_hold(torch::optim::Optimizer& optimizer,
                      const std::function<bool(const at::Tensor&)>& is_divided) {
  const bool may = may_hold_parts(optimizer);
  for (const auto& group : optimizer.param_groups()) {
    for (const auto& leaf : group.params()) {
      const auto found = optimizer.state().find(leaf.unsafeGetTensorImpl());
      const bool has_state = found != optimizer.state().end() && found->second;
      if (may && (!has_state || is_cuttable(*found->second))) continue;
      if (!is_divided(leaf)) continue;
      require_may_hold_parts(optimizer);
      require_cuttable(*found->second, optimizer);
    }
  }
}

bool hold_shards(torch::optim::Optimizer& optimizer, const std::shared_ptr<ModelParts>& model) {
  PartsForLeaves parts(optimizer, model);
  for (auto& group : optimizer.param_groups()) parts.put_into(group.params());
  return parts.found_any();
}

void hold_shards(std::vector<at::Tensor>& parameters, torch::optim::Optimizer& optimizer,
                 const std::shared_ptr<ModelParts>& model) {
  PartsForLeaves(optimizer, model).put_into(parameters);
}

}  // namespace accelerate::detail
