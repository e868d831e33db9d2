// Does to a model what the arguments ask before it trains.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

#include "accelerate/transformers/trainer/arguments/training_arguments.h"
#include "accelerate/transformers/trainer/trainable_model.h"

namespace accelerate::detail {

/// Turns on what the arguments ask for: recomputing of activations, noise on embeddings, TF32.
/// Throws ConfigError, with the model's name, for a model that cannot do it.
void apply_to_model(const TrainingArguments& args, const TrainableModel& model);

/// Throws ConfigError when the arguments ask for HalfWeights and the model is sharded.
void check_half_weights(const TrainingArguments& args, bool is_sharded);

/// While it lives, floating-point parameters and buffers are in 16 bits, if bf16_full_eval or
/// fp16_full_eval asks for it. Memory: half as much again.
class HalfWeights {
 public:
  HalfWeights(const TrainingArguments& args, const TrainableModel& model);
  ~HalfWeights();
  HalfWeights(const HalfWeights&) = delete;
  HalfWeights& operator=(const HalfWeights&) = delete;

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> before_;  // The tensor, and its data before.
};

}  // namespace accelerate::detail
