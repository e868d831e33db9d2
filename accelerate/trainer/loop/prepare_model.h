// What the arguments ask of a model before it trains.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

#include "accelerate/trainer/arguments/training_arguments.h"
#include "accelerate/trainer/trainable_model.h"

namespace accelerate::detail {

/// Turns on what the arguments ask for: recomputing of activations, noise on embeddings, TF32.
/// Throws ConfigError, with the model's name, for one that cannot do it.
void apply_to_model(const TrainingArguments& args, const TrainableModel& model);

/// Throws ConfigError when the arguments ask for HalfWeights of a sharded model.
void check_half_weights(const TrainingArguments& args, bool is_sharded);

/// While it lives, floating parameters and buffers are in 16 bits, as bf16_full_eval and
/// fp16_full_eval ask. Memory: half as much again.
class HalfWeights {
 public:
  HalfWeights(const TrainingArguments& args, const TrainableModel& model);
  ~HalfWeights();
  HalfWeights(const HalfWeights&) = delete;
  HalfWeights& operator=(const HalfWeights&) = delete;

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> before_;  // Leaf, data.
};

}  // namespace accelerate::detail
