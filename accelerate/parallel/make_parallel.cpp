#include "accelerate/parallel/make_parallel.h"

#include <utility>

#include "accelerate/parallel/recompute/recompute.h"
#include "accelerate/parallel/replicated/distributed_data_parallel.h"
#include "accelerate/parallel/sharded/fully_sharded_data_parallel.h"
#include "accelerate/tensor/divisible_module.h"

namespace accelerate {

namespace {

std::optional<GradientCheckpointing> checkpointing_of(const StrategyOptions& options) {
  const auto& sharding = options.sharding;
  if (options.checkpointing || !sharding || !sharding->activation_checkpointing)
    return options.checkpointing;
  return GradientCheckpointing{.offload = sharding->activation_checkpointing_offload};
}

// Null if nothing is computed again, or if the model does it by itself.
std::shared_ptr<Recompute> recompute_of(const ModuleView& view, const StrategyOptions& options) {
  const auto checkpointing = checkpointing_of(options);
  if (!checkpointing) return nullptr;
  const bool is_plain = *checkpointing == GradientCheckpointing{};
  if (is_plain && view.divisible != nullptr && view.divisible->compute_layers_again())
    return nullptr;
  return std::make_shared<Recompute>(view, *checkpointing, options.sharding);
}
ParallelModel replicate(const ModuleView& view, std::shared_ptr<Communicator> communicator,
                        const StrategyOptions& options) {
  const auto replicas = std::make_shared<DistributedDataParallel>(view, std::move(communicator),
                                                                  options.ddp, options.when_alone);
  return {.engine = replicas,
          .parts = std::make_shared<ModelParts>(),
          .saved = std::make_shared<SavedParts>(),
          .inspection = std::make_shared<Inspection>(),
          .replicas = replicas};
}

}  // namespace

ParallelModel make_parallel(const ModuleView& view, std::shared_ptr<Communicator> communicator,
                            const StrategyOptions& options) {
  auto recompute = recompute_of(view, options);
  ParallelModel model = options.sharding ? shard_model(view, std::move(communicator),
                                                       *options.sharding, options.device)
                                         : replicate(view, std::move(communicator), options);
  model.recompute = std::move(recompute);
  return model;
}

}  // namespace accelerate
