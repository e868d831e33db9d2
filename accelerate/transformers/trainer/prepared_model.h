// A trainable model behind an Accelerator: the call that every batch goes through.
#pragma once

#include <memory>
#include <utility>

#include "accelerate/accelerator/accelerator.h"
#include "accelerate/transformers/trainer/trainable_model.h"

namespace accelerate::detail {

class PreparedModel {
 public:
  /// [collective] Throws what Accelerator::prepare() throws.
  PreparedModel(Accelerator& accelerator, TrainableModel model);

  /// Runs the model's forward under the Accelerator, in its mixed precision. [collective where the
  /// model is sharded]
  [[nodiscard]] ModelOutput operator()(const Inputs& inputs) { return call_(inputs); }
  [[nodiscard]] const std::shared_ptr<ModelCore>& core() const { return call_.core(); }
  [[nodiscard]] std::vector<at::Tensor> parameters() const { return call_.parameters(); }
  [[nodiscard]] const TrainableModel& model() const { return model_; }
  void train(bool on = true) const { model_.train(on); }

 private:
  // Gives Prepared one type to call, whatever the type of the model.
  struct Callable {
    TrainableModel model;
    ModelOutput forward(const Inputs& inputs) { return model.forward(inputs); }
  };

  TrainableModel model_;
  Prepared<std::shared_ptr<Callable>> call_;
};

}  // namespace accelerate::detail
