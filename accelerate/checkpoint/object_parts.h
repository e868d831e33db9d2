// The parts of a training that every checkpoint has: what an object saves, and how it is loaded.
// docs/formats/checkpoint.md has their keys.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "accelerate/checkpoint/checkpointable.h"
#include "accelerate/checkpoint/training_state.h"
#include "accelerate/data/loader_plan.h"
#include "accelerate/formats/manifest.h"
#include "accelerate/optim/accelerated_optimizer.h"
#include "accelerate/optim/accelerated_scheduler.h"
#include "accelerate/optim/optimizer_state.h"
#include "accelerate/optim/precision/grad_scaler.h"

namespace accelerate {

/// An optimizer, and the names under which its state is saved.
struct OptimizerPart {
  AcceleratedOptimizer optimizer;
  ParameterNames names;                 ///< Of the parameters, and of this rank's parts of them.
  std::vector<NamedShard> shards = {};  ///< Of sharded parameters, under the names in `names`.
};

/// Returns the part whose state is saved as the file <stem>.json. The user's optimizer must outlive
/// it; other objects are handles or copies in it.
[[nodiscard]] StatePart part_of(std::string stem, const OptimizerPart& part);
[[nodiscard]] StatePart part_of(std::string stem, AcceleratedScheduler scheduler);
[[nodiscard]] StatePart part_of(std::string stem, const detail::LoaderPlan& loader);
[[nodiscard]] StatePart part_of(std::string stem, const std::shared_ptr<GradScaler>& scaler);
[[nodiscard]] StatePart part_of(std::string stem, const detail::CheckpointedObject& object);

/// The random generators of `rank`.
[[nodiscard]] StatePart random_states_part(int rank);
/// The random generators of `rank`, to be loaded from the checkpoint of `manifest`. A rank that is
/// not in the checkpoint draws other numbers than the saved ranks, but the same in each resumed
/// run.
[[nodiscard]] StatePart random_states_part(int rank, const Manifest& manifest);

}  // namespace accelerate
