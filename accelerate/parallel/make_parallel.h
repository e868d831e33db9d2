// Chooses the strategy that trains a model.
#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <optional>

#include "accelerate/comm/communicator.h"
#include "accelerate/launch/config/fsdp_options.h"
#include "accelerate/parallel/parallel_model.h"
#include "accelerate/parallel/recompute/gradient_checkpointing.h"
#include "accelerate/parallel/replicated/ddp_kwargs.h"
#include "accelerate/tensor/module_view.h"

namespace accelerate {

struct StrategyOptions {
  std::optional<ResolvedFsdpOptions> sharding =
      {};                                       ///< FSDP and ZeRO; unset: every rank has it all.
  c10::Device device = c10::Device(c10::kCPU);  ///< Where a sharded model computes.
  /// What is computed again in backward; unset: nothing, unless `sharding` asks for it.
  std::optional<GradientCheckpointing> checkpointing = {};
  DistributedDataParallelKwargs ddp = {};   ///< Of replicas; ignored with `sharding`.
  WhenAlone when_alone = WhenAlone::train;  ///< Of replicas in a group of one.
};

/// Makes the viewed module one model on all ranks of `communicator`. [collective] Throws as
/// shard_model() and the constructors of DistributedDataParallel and Recompute do.
[[nodiscard]] ParallelModel make_parallel(const ModuleView& view,
                                          std::shared_ptr<Communicator> communicator,
                                          const StrategyOptions& options);

}  // namespace accelerate
