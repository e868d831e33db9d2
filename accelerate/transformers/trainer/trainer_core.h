// What the parts of a Trainer share: the objects that train, and the state of the training.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "accelerate/accelerator/accelerator.h"
#include "accelerate/transformers/trainer/callbacks/callback_list.h"
#include "accelerate/transformers/trainer/data/trainer_loaders.h"
#include "accelerate/transformers/trainer/loop/training_plan.h"
#include "accelerate/transformers/trainer/prepared_model.h"
#include "accelerate/transformers/trainer/trainer_options.h"

namespace accelerate::detail {

struct TrainerCore {
  explicit TrainerCore(TrainerOptions given);

  /// Returns the model behind the Accelerator. The first call prepares it. [collective then]
  [[nodiscard]] PreparedModel& prepared_model();
  /// Returns this rank's share of `loader`. Batches that rank 0 reads for all ranks are padded to
  /// one length.
  [[nodiscard]] PreparedLoader<Inputs> prepare(const DataLoader<Inputs>& loader);
  /// How rows become batches.
  [[nodiscard]] LoaderRecipe recipe() const;
  [[nodiscard]] TrainerEvent event();
  /// Calls `handler` of every callback with the present event.
  template <typename... Parameters, typename... Arguments>
  void call(void (TrainerCallback::*handler)(TrainerEvent&, Parameters...),
            const Arguments&... arguments) {
    auto happened = event();
    callbacks.call(handler, happened, arguments...);
  }
  /// Adds the epoch and the token count to `logs`, keeps them in the history and tells the
  /// callbacks. Returns what was logged.
  LogValues log(LogValues logs);
  /// Returns the sums of the ranks' values, element by element. [collective]
  [[nodiscard]] std::vector<double> sum(const std::vector<double>& mine);
  /// Returns the least of the ranks' values. [collective]
  [[nodiscard]] std::int64_t least(std::int64_t mine);
  /// Runs `action` on the main process alone. An Error there becomes a ConfigError on every rank.
  /// [collective]
  void on_main_process(const std::function<void()>& action);
  /// Tells the optimizer whether it trains; some optimizers behave differently in evaluation.
  void set_training_mode(bool training);

  TrainerOptions options;
  TrainingArguments args;  ///< As resolved() returns them.
  Accelerator accelerator;
  TrainableModel model;
  std::optional<PreparedModel> prepared;
  std::shared_ptr<torch::optim::Optimizer> own_optimizer;
  std::optional<AcceleratedOptimizer> optimizer;
  std::optional<AcceleratedScheduler> lr_scheduler;
  std::int64_t accumulation;      ///< Micro-batches in a step.
  std::int64_t train_batch_size;  ///< Of one rank; auto_find_batch_size makes it smaller.
  TrainerState state;
  TrainerControl control;
  CallbackList callbacks;
  bool is_training = false;
};

}  // namespace accelerate::detail
