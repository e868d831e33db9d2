// The weights of a checkpoint into a model that has no memory yet.
#pragma once

#include <string>

#include "accelerate/checkpoint/weight_files.h"
#include "accelerate/models/pre_trained_model.h"

namespace accelerate::detail {

struct LoadPretrainedOptions {
  std::string dtype = "auto";
  bool ignore_mismatched_sizes = false;
};

/// Gives every parameter of `model`, which are of the meta device, its values: those of `weights`,
/// without a copy where the type fits, so that they have to be writable; else the first values of
/// Transformers' _init_weights. `place` stands for the weights in messages. Names may have the
/// prefix of the base model or lack it, and the older `gamma` and `beta` of norms. Warns of what
/// the files lack, have beside it, or have in another shape. Throws CheckpointError when there are
/// no weights, when they fit nothing in the model, and for other shapes unless they are to be
/// ignored; UsageError for an unknown dtype.
void load_pretrained_weights(PreTrainedModel& model, WeightReader weights, const std::string& place,
                             const LoadPretrainedOptions& options);

}  // namespace accelerate::detail
