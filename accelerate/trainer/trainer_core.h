// What the parts of a Trainer share: the objects that train, and where they are.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "accelerate/accelerator/accelerator.h"
#include "accelerate/trainer/callbacks/callback_list.h"
#include "accelerate/trainer/data/trainer_loaders.h"
#include "accelerate/trainer/loop/training_plan.h"
#include "accelerate/trainer/prepared_model.h"
#include "accelerate/trainer/trainer_options.h"

namespace accelerate::detail {

struct TrainerCore {
  explicit TrainerCore(TrainerOptions given);

  /// The model behind the Accelerator, prepared when it is first asked for. [collective then]
  [[nodiscard]] PreparedModel& prepared_model();
  /// This rank's share of `loader`. What rank 0 reads for all is filled up to one length.
  [[nodiscard]] PreparedLoader<Inputs> prepare(const DataLoader<Inputs>& loader);
  /// How rows become batches.
  [[nodiscard]] LoaderRecipe recipe() const;
  [[nodiscard]] TrainerEvent event();
  /// Tells callbacks.
  template <typename... Parameters, typename... Arguments>
  void call(void (TrainerCallback::*handler)(TrainerEvent&, Parameters...),
            const Arguments&... arguments) {
    auto happened = event();
    callbacks.call(handler, happened, arguments...);
  }
  /// Adds epoch and token count, keeps `logs` in the history and tells callbacks. Returns what was
  /// logged.
  LogValues log(LogValues logs);
  /// The sum of the ranks' values. [collective]
  [[nodiscard]] std::vector<double> sum(const std::vector<double>& mine);
  /// Runs `action` on the main process alone. What goes wrong there is a ConfigError on every
  /// rank. [collective]
  void on_main_process(const std::function<void()>& action);
  /// Optimizers that behave differently in evaluation are told.
  void set_training_mode(bool training);

  TrainerOptions options;
  TrainingArguments args;  ///< Resolved.
  Accelerator accelerator;
  TrainableModel model;
  std::optional<PreparedModel> prepared;
  std::shared_ptr<torch::optim::Optimizer> own_optimizer;
  std::optional<AcceleratedOptimizer> optimizer;
  std::optional<AcceleratedScheduler> lr_scheduler;
  std::int64_t accumulation;      ///< Micro-batches of a step.
  std::int64_t train_batch_size;  ///< Of a rank; auto_find_batch_size makes it smaller.
  TrainerState state;
  TrainerControl control;
  CallbackList callbacks;
  bool is_training = false;
};

}  // namespace accelerate::detail
