// Loads the weights of a checkpoint into a model that has no memory yet.
#pragma once

#include <string>

#include "accelerate/tensor/weights.h"
#include "accelerate/transformers/models/pre_trained_model.h"

namespace accelerate::detail {

struct LoadPretrainedOptions {
  std::string dtype = "auto";
  bool ignore_mismatched_sizes = false;
};

/// Gives every parameter of `model`, all on the meta device, its values. They come from `weights`,
/// without a copy if the type fits, so that `weights` must be writable. Parameters that `weights`
/// lacks are initialised as by Transformers' _init_weights. `place` stands for the weights in
/// messages.
/// Names may have or lack the prefix of the base model, and norms may have the older names `gamma`
/// and `beta`. Warns of tensors that the files lack, that only the files have, or that have another
/// shape.
/// Throws CheckpointError when there are no weights, when none fits the model, when tied weights
/// differ, for another kind of number (see are_of_one_kind), and for another shape unless
/// ignore_mismatched_sizes; UsageError for an unknown dtype.
void load_pretrained_weights(PreTrainedModel& model, WeightReader weights, const std::string& place,
                             const LoadPretrainedOptions& options);

}  // namespace accelerate::detail
