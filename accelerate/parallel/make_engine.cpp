#include "accelerate/parallel/make_engine.h"

#include <utility>

#include "accelerate/parallel/replicated/distributed_data_parallel.h"
#include "accelerate/parallel/sharded/fully_sharded_data_parallel.h"

namespace accelerate {

std::shared_ptr<ParallelEngine> make_engine(const ModuleView& view,
                                            std::shared_ptr<Communicator> communicator,
                                            const StrategyOptions& options) {
  if (options.sharding)
    return std::make_shared<FullyShardedDataParallel>(view, std::move(communicator),
                                                      *options.sharding);
  return std::make_shared<DistributedDataParallel>(view, std::move(communicator), options.ddp,
                                                   options.when_alone);
}

}  // namespace accelerate
