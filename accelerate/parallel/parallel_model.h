// A model whose copies or parts on all ranks train as one model, by who asks it.
#pragma once

#include <memory>

#include "accelerate/parallel/engine.h"
#include "accelerate/parallel/inspection.h"
#include "accelerate/parallel/model_parts.h"

namespace accelerate {

class DistributedDataParallel;
class Recompute;

/// What a strategy makes of a model. A caller takes the interface that it needs.
struct ParallelModel {
  std::shared_ptr<ParallelEngine> engine;  ///< For the training step.
  std::shared_ptr<ModelParts> parts;       ///< For optimizers and clipping.
  std::shared_ptr<SavedParts> saved;       ///< For checkpoints.
  std::shared_ptr<Inspection> inspection;  ///< For tests and for the eye.
  /// For what needs a whole copy on every rank (Local SGD, uneven inputs); null without one.
  std::shared_ptr<DistributedDataParallel> replicas = nullptr;
  std::shared_ptr<Recompute> recompute = nullptr;  ///< Null: everything is kept for backward.
};

}  // namespace accelerate
