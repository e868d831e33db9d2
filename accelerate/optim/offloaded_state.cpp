#include "accelerate/optim/offloaded_state.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/Type.h>

#include <optional>
#include <string>

#include "accelerate/base/error.h"
#include "accelerate/optim/optimizer_fields.h"
#include "accelerate/parallel/offload/offload_store.h"
#include "accelerate/tensor/compat/fused_optimizers.h"

namespace accelerate::detail {
namespace {

using torch::optim::OptimizerOptions;

// The number of tensors that a fused optimizer keeps of each parameter; nullopt for other options.
std::optional<int> states_of(const OptimizerOptions& options) {
  if (const auto* adam = dynamic_cast<const torch::optim::AdamOptions*>(&options))
    return adam->amsgrad() ? 3 : 2;
  if (const auto* adamw = dynamic_cast<const torch::optim::AdamWOptions*>(&options))
    return adamw->amsgrad() ? 3 : 2;
  if (const auto* sgd = dynamic_cast<const torch::optim::SGDOptions*>(&options))
    return sgd->momentum() != 0 ? 1 : 0;
  if (dynamic_cast<const torch::optim::AdagradOptions*>(&options) != nullptr) return 1;
  return std::nullopt;
}

compat::FusedOptimizer kernel_of(const OptimizerOptions& options) {
  if (dynamic_cast<const torch::optim::AdamOptions*>(&options)) return compat::FusedOptimizer::adam;
  if (dynamic_cast<const torch::optim::AdamWOptions*>(&options))
    return compat::FusedOptimizer::adamw;
  if (dynamic_cast<const torch::optim::SGDOptions*>(&options)) return compat::FusedOptimizer::sgd;
  return compat::FusedOptimizer::adagrad;
}

// Writes each tensor of a parameter's state to its place in the store.
struct MoveState {
  OffloadStore& store;
  const at::Tensor& parameter;
  int number = 0;

  void operator()(const char*, at::Tensor& tensor) {
    const int own = number++;
    if (!tensor.defined() || tensor.numel() == 0 || store.holds(tensor)) return;
    at::Tensor place = store.take_state(parameter, own);
    const at::Tensor written = tensor.to(place.options()).contiguous();
    store.write(place, written).wait();
    tensor = place;
  }
  template <typename Other>
  void operator()(const char*, Other&) {}
};

}  // namespace

void reserve_state(torch::optim::Optimizer& optimizer) {
  for (const auto& group : optimizer.param_groups()) {
    const auto states = states_of(group.options());
    for (const auto& parameter : group.params()) {
      const auto store = OffloadStore::keeping_state_of(parameter);
      if (!store) continue;
      const bool fits = states && compat::can_fuse(kernel_of(group.options()), parameter);
      if (!fits) {
        throw ConfigError(
            c10::demangle(typeid(optimizer).name()) + " over " +
            c10::toString(parameter.scalar_type()) +
            " parameters cannot keep its state on disk: allowed are SGD, Adam, AdamW and Adagrad "
            "over fp32 or fp64. Choose one of them, or mixed precision in place of a 16-bit model, "
            "or keep the optimizer in memory");
      }
      for (int i = 0; i < *states; ++i) store->reserve_state(parameter, i);
    }
  }
}

void move_state(torch::optim::Optimizer& optimizer) {
  const at::NoGradGuard no_grad;
  auto& states = optimizer.state();
  for (const auto& group : optimizer.param_groups()) {
    for (const auto& parameter : group.params()) {
      const auto store = OffloadStore::keeping_state_of(parameter);
      if (!store) continue;
      const auto found = states.find(parameter.unsafeGetTensorImpl());
      if (found == states.end() || !found->second) continue;
      MoveState move{*store, parameter};
      any_optimizer_kind([&]<typename Kind>(Kind) {
        auto* typed = dynamic_cast<typename Kind::State*>(found->second.get());
        if (typed != nullptr) Kind::state(*typed, move);
        return typed != nullptr;
      });
    }
  }
}

}  // namespace accelerate::detail
