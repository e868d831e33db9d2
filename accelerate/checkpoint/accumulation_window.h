// An accumulation window inside which a training is saved. There each rank has gradients that exist
// nowhere else.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "accelerate/checkpoint/training_state.h"
#include "accelerate/formats/manifest.h"
#include "accelerate/optim/optimizer_state.h"
#include "accelerate/parallel/gradients/item_count.h"

namespace accelerate {

/// The window of a training, as one rank has it.
struct OpenWindow {
  std::vector<at::Tensor> parameters;  ///< Of all models; grad() is what was accumulated so far.
  ParameterNames names;                ///< Names of `parameters`.
  detail::ItemCount& items;            ///< Must outlive the parts.
  int rank = 0;
  int num_ranks = 1;
  bool is_sharded = false;  ///< Whether a model is; its gradients cannot be saved.
};

/// Returns the gradients of this rank and the number of items counted so far. Throws UsageError for
/// a sharded model.
[[nodiscard]] StatePart part_to_save(const OpenWindow& window);

/// Returns this rank's share of the gradients that the ranks of `manifest` saved; none for a
/// checkpoint from between two windows. The gradients are weighted so that their mean over the
/// ranks, or their sum if items are counted, is what it was. Loading adds them to grad(). Throws
/// CheckpointError for a sharded model, and if gradients lie on a disk that this rank cannot reach.
[[nodiscard]] std::vector<StatePart> parts_to_load(const OpenWindow& window,
                                                   const Manifest& manifest);

}  // namespace accelerate
