#include "accelerate/parallel/make_parallel.h"

#include <utility>

#include "accelerate/parallel/replicated/distributed_data_parallel.h"
#include "accelerate/parallel/sharded/fully_sharded_data_parallel.h"

namespace accelerate {

ParallelModel make_parallel(const ModuleView& view, std::shared_ptr<Communicator> communicator,
                            const StrategyOptions& options) {
  if (options.sharding)
    return shard_model(view, std::move(communicator), *options.sharding, options.device);
  const auto replicas = std::make_shared<DistributedDataParallel>(view, std::move(communicator),
                                                                  options.ddp, options.when_alone);
  return {.engine = replicas,
          .parts = std::make_shared<ModelParts>(),
          .saved = std::make_shared<SavedParts>(),
          .inspection = std::make_shared<Inspection>(),
          .replicas = replicas};
}

}  // namespace accelerate
