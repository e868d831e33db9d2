// What DeepSpeed saved in a state folder of Python Accelerate or of the Trainer: models, their
// optimizers, its own schedule, and the loss scale.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "accelerate/base/file_system.h"
#include "accelerate/checkpoint/training_state.h"
#include "accelerate/formats/shards/deepspeed_checkpoint.h"
#include "accelerate/tensor/state_dict.h"
#include "accelerate/tensor/weights.h"

namespace accelerate {

class PythonDeepSpeed {
 public:
  /// Opens all models in `folder`: the tags pytorch_model, pytorch_model_1, … of Accelerate, or the
  /// one tag that `latest` names. Opens none if DeepSpeed did not save there. Throws
  /// CheckpointError.
  static PythonDeepSpeed open(FileSystem& files, const std::filesystem::path& folder);

  /// How many models there are; each has one optimizer.
  [[nodiscard]] int count() const { return static_cast<int>(models_.size()); }
  /// Whether DeepSpeed saved the schedule of its configuration file.
  [[nodiscard]] bool has_schedule(int number) const;
  [[nodiscard]] std::filesystem::path folder(int number) const;

  /// Returns the weights of a model. Under ZeRO 0 with bf16 or fp16 the fp32 weights have no names:
  /// they are taken in the order of the parameters of `optimizer`, if it is not null.
  [[nodiscard]] WeightReader weights(int number, const StatePart* optimizer) const;
  /// These return states of ours. Of tensors that are spread over ranks only the parts of `part`
  /// are read. Throw CheckpointError.
  [[nodiscard]] StateDict optimizer(int number, const StatePart& part) const;
  [[nodiscard]] StateDict schedule(int number, const StatePart& part) const;
  [[nodiscard]] StateDict scaler(const StatePart& part) const;

 private:
  using Saved = std::shared_ptr<const DeepSpeedCheckpoint>;

  std::vector<Saved> models_;
};

}  // namespace accelerate
