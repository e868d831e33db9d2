// What a Trainer trains, behind its Accelerator: the model, its optimizer and its schedule.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/accelerator/accelerator.h"
#include "accelerate/launch/config/deepspeed_file.h"
#include "accelerate/optim/deepspeed_dummies.h"
#include "accelerate/transformers/trainer/trainable_model.h"
#include "accelerate/transformers/trainer/trainer_options.h"

namespace accelerate::detail {

/// A trainable model behind an Accelerator: the call that every batch goes through.
class PreparedModel {
 public:
  /// [collective] Throws what Accelerator::prepare() throws.
  PreparedModel(Accelerator& accelerator, TrainableModel model);

  /// Runs the model's forward under the Accelerator, in its mixed precision. [collective where the
  /// model is sharded]
  [[nodiscard]] ModelOutput operator()(const Inputs& inputs) { return call_(inputs); }
  [[nodiscard]] const std::shared_ptr<ModelCore>& core() const { return call_.core(); }
  [[nodiscard]] std::vector<at::Tensor> parameters() const { return call_.parameters(); }
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

class TrainedModel {
 public:
  /// Makes the model with model_init, if it is set, and turns on what the arguments ask for: noise
  /// on embeddings, and TF32. All references must outlive this. Throws ConfigError without a model, and for a model that cannot do what is asked.
  TrainedModel(const TrainerOptions& options, const ResolvedArguments& args,
               Accelerator& accelerator);

  [[nodiscard]] const TrainableModel& model() const { return model_; }
  /// Returns the model behind the Accelerator. The first call prepares it. [collective then]
  [[nodiscard]] PreparedModel& prepared_model();
  /// Whether the model is sharded; false before prepared_model().
  [[nodiscard]] bool is_sharded() const;
  /// Null before prepare_optimizer().
  [[nodiscard]] AcceleratedOptimizer* optimizer() { return optimizer_ ? &*optimizer_ : nullptr; }
  [[nodiscard]] AcceleratedScheduler* lr_scheduler() {
    return lr_scheduler_ ? &*lr_scheduler_ : nullptr;
  }

  /// Makes a schedule over `max_steps`, and at the first call the optimizer. [collective] Throws
  /// ConfigError.
  void prepare_optimizer(std::int64_t max_steps);
  /// Returns the schedule that DeepSpeed's file or the arguments describe, for an optimizer that is
  /// not prepared.
  [[nodiscard]] std::shared_ptr<LRScheduler> planned_schedule(torch::optim::Optimizer& optimizer,
                                                              std::int64_t max_steps) const;
  /// Return the names of the optimizer and the schedule, of DeepSpeed's file or the arguments.
  [[nodiscard]] std::string optimizer_name() const;
  [[nodiscard]] std::string schedule_name() const;
  /// Makes a new model with model_init, and forgets the optimizer.
  void remake();
  /// Tells the optimizer whether it trains; some optimizers behave differently in evaluation.
  void set_training_mode(bool training);
  /// Prepares the model. Throws ConfigError when it is sharded and the arguments ask for an
  /// evaluation with weights in 16 bits. [collective]
  void check_half_weights();

 private:
  void apply_arguments();
  [[nodiscard]] std::shared_ptr<torch::optim::Optimizer> make_optimizer() const;
  [[nodiscard]] std::shared_ptr<LRScheduler> make_schedule(std::int64_t max_steps);
  [[nodiscard]] DummySchedulerOptions stand_in_options(std::int64_t max_steps, int ranks) const;
  void warn_of_what_the_file_replaces() const;

  const TrainerOptions& options_;
  const ResolvedArguments& args_;
  Accelerator& accelerator_;
  std::optional<DeepSpeedFile> deepspeed_;
  TrainableModel model_;
  std::optional<PreparedModel> prepared_;
  std::shared_ptr<torch::optim::Optimizer> own_optimizer_;
  std::optional<AcceleratedOptimizer> optimizer_;
  std::optional<AcceleratedScheduler> lr_scheduler_;
};

/// While it lives, floating-point parameters and buffers are in 16 bits, if bf16_full_eval or
/// fp16_full_eval asks for it. Memory: half as much again.
class HalfWeights {
 public:
  HalfWeights(const ResolvedArguments& args, const TrainableModel& model);
  ~HalfWeights();
  HalfWeights(const HalfWeights&) = delete;
  HalfWeights& operator=(const HalfWeights&) = delete;

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> before_;  // The tensor, and its data before.
};

}  // namespace accelerate::detail
