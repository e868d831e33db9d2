// Chooses the strategy that trains a model.
#pragma once

#include <memory>
#include <optional>

#include "accelerate/comm/communicator.h"
#include "accelerate/parallel/engine.h"
#include "accelerate/parallel/replicated/ddp_kwargs.h"
#include "accelerate/parallel/sharded/fully_sharded_data_parallel.h"
#include "accelerate/tensor/module_view.h"

namespace accelerate {

struct StrategyOptions {
  std::optional<ShardingOptions> sharding = {};  ///< FSDP and ZeRO; unset: every rank has it all.
  DistributedDataParallelKwargs ddp = {};        ///< Of replicas; ignored with `sharding`.
  WhenAlone when_alone = WhenAlone::train;       ///< Of replicas in a group of one.
};

/// Makes the viewed module one model on all ranks of `communicator`. [collective] Throws what the
/// constructors of FullyShardedDataParallel and DistributedDataParallel do.
[[nodiscard]] std::shared_ptr<ParallelEngine> make_engine(
    const ModuleView& view, std::shared_ptr<Communicator> communicator,
    const StrategyOptions& options);

}  // namespace accelerate
