// What several Accelerators of one process have prepared, so that a call on the wrong one is refused
// instead of doing nothing.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "accelerate/accelerator/model_core.h"
#include "accelerate/comm/state/gradient_state.h"
#include "accelerate/optim/accelerated_optimizer.h"

namespace accelerate::detail {

/// Notes that the Accelerator of `owner` has prepared `core`. `scales` says whether it scales
/// losses. The note ends with the core.
void note_prepared(const std::shared_ptr<ModelCore>& core,
                   const std::shared_ptr<const GradientState>& owner, bool scales);

/// Throws UsageError, which names `call`, if another Accelerator than that of `owner` has prepared
/// `core` for several ranks. Accepts a core that nobody has noted.
void require_prepared_by(const GradientState& owner, const ModelCore& core, const char* call);

/// Whether `parameter` is divided among ranks, or this rank's part of such a parameter.
[[nodiscard]] bool is_shard(const at::Tensor& parameter);

/// Throws UsageError, which names `call`, if the Accelerator of `owner` cannot find or unscale the
/// gradient of one of `parameters`, because only another Accelerator can. Such parameters are
/// shards, and those of models that train under fp16 loss scaling, unless one of `optimizers`, this
/// Accelerator's, steps them. Give it no parameter whose shards a live model of this one has.
void require_own_gradients(const GradientState& owner, const std::vector<at::Tensor>& parameters,
                           const std::vector<AcceleratedOptimizer>& optimizers, const char* call);

/// Throws UsageError if `loss` depends on a model of another Accelerator, whose gradients a backward
/// of this one would leave unreduced, or scaled by a number that nobody divides by. On one rank
/// every such loss is right without loss scaling, or if a model or one of `optimizers` of this
/// Accelerator takes part. Cost: a walk over the graph of `loss`, if there are such models.
void require_own_loss(const GradientState& owner, const at::Tensor& loss,
                      const std::vector<AcceleratedOptimizer>& optimizers, bool scales);

/// Returns the class of a model that another Accelerator, which still exists, has prepared on this
/// thread, or "".
[[nodiscard]] std::string class_prepared_elsewhere(const GradientState& owner);

}  // namespace accelerate::detail
