// The scopes in which gradients accumulate.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "accelerate/accelerator/model_core.h"
#include "accelerate/accelerator/prepared_elsewhere.h"
#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/comm/state/gradient_state.h"

namespace accelerate {

/// While alive and `synchronize` is false, backward through the models only accumulates. If it is
/// true, the models synchronise as they did before, so a window inside no_sync or LocalSGD stays
/// local.
class [[nodiscard]] SyncScope {
 public:
  SyncScope(std::vector<std::shared_ptr<detail::ModelCore>> cores, bool synchronize)
      : cores_(std::move(cores)) {
    for (const auto& core : cores_) {
      before_.push_back(core->parallel().engine->synchronize());
      core->parallel().engine->set_synchronize(before_.back() && synchronize);
    }
  }
  ~SyncScope() {
    // In reverse order, since a model may be named twice.
    for (std::size_t i = cores_.size(); i-- > 0;) {
      cores_[i]->parallel().engine->set_synchronize(before_[i]);
    }
  }
  SyncScope(const SyncScope&) = delete;
  SyncScope& operator=(const SyncScope&) = delete;

 private:
  std::vector<std::shared_ptr<detail::ModelCore>> cores_;
  std::vector<bool> before_;
};

/// Holds one micro-batch of an accumulation window. Scopes do not nest. If an exception ends the
/// scope before backward, the micro-batch does not count: the next one takes its place, and
/// optimizers refuse to step until then. If an exception ends it after backward has begun, the
/// gradients of the window are spoilt, and optimizers refuse to step until zero_grad().
class [[nodiscard]] AccumulationWindow {
 public:
  AccumulationWindow(std::shared_ptr<GradientState> state,
                     const std::vector<std::shared_ptr<detail::ModelCore>>& cores)
      : state_(begin(std::move(state), cores)),
        sync_(cores, state_->sync_gradients || state_->accumulation.sync_each_batch) {}
  ~AccumulationWindow() {
    state_->in_micro_batch = false;
    if (std::uncaught_exceptions() > exceptions_) state_->abandon_micro_batch();
  }
  AccumulationWindow(const AccumulationWindow&) = delete;
  AccumulationWindow& operator=(const AccumulationWindow&) = delete;

 private:
  static std::shared_ptr<GradientState> begin(
      std::shared_ptr<GradientState> state,
      const std::vector<std::shared_ptr<detail::ModelCore>>& cores) {
    if (state->in_micro_batch) {
      throw UsageError(
          "accumulate() was called while the scope of another one lasts, which would count the "
          "micro-batch twice: name all models in one call, accumulate(first, second), or end the "
          "first scope before",
          error_name::kGradientAccumulation);
    }
    for (const auto& core : cores) {
      detail::require_prepared_by(*state, *core, "accumulate()");
      core->parallel().engine->require_unwritten(state->window());
    }
    state->begin_micro_batch();
    state->in_micro_batch = true;
    const bool is_local = !state->sync_gradients && !state->accumulation.sync_each_batch;
    const auto watched = is_local ? std::optional(state->window()) : std::nullopt;
    for (const auto& core : cores) core->parallel().engine->watch_writes(watched);
    return state;
  }

  std::shared_ptr<GradientState> state_;
  int exceptions_ = std::uncaught_exceptions();
  SyncScope sync_;
};

}  // namespace accelerate
