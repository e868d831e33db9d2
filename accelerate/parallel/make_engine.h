// Which strategy a model is trained by.
#pragma once

#include <memory>
#include <optional>

#include "accelerate/comm/communicator.h"
#include "accelerate/parallel/engine.h"
#include "accelerate/parallel/replicated/distributed_data_parallel.h"
#include "accelerate/parallel/sharded/fully_sharded_data_parallel.h"
#include "accelerate/tensor/module_view.h"

namespace accelerate {

struct StrategyOptions {
  std::optional<ShardingOptions> sharding = {};  ///< FSDP and ZeRO; unset: every rank has it all.
  DistributedDataParallelKwargs ddp = {};        ///< Of models that every rank has whole.
  WhenAlone when_alone = WhenAlone::train;       ///< The same.
};

/// Makes the viewed module one model on all ranks of `communicator`. [collective] Throws what the
/// constructors of FullyShardedDataParallel and DistributedDataParallel do.
[[nodiscard]] std::shared_ptr<ParallelEngine> make_engine(
    const ModuleView& view, std::shared_ptr<Communicator> communicator,
    const StrategyOptions& options);

}  // namespace accelerate
