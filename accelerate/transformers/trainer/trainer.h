// Training, evaluation, checkpoints and pushes of a model in one object, from one process to many.
// Names and meanings are as in Transformers' Trainer; docs/trainer.md says what is added.
//
//   TrainingArguments args{.output_dir = "your-model",
//                          .learning_rate = 2e-5,
//                          .num_train_epochs = 2,
//                          .eval_strategy = "epoch",
//                          .save_strategy = "epoch"};
//   Trainer trainer({.model = model,
//                    .args = args,
//                    .train_dataset = dataset["train"],
//                    .eval_dataset = dataset["test"],
//                    .processing_class = tokenizer,
//                    .compute_metrics = Accuracy()});
//   trainer.train();
//   const double accuracy = trainer.evaluate()["eval_accuracy"];
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/base/run_main.h"
#include "accelerate/transformers/hub/upload.h"
#include "accelerate/transformers/trainer/trainer_options.h"

namespace accelerate {
class Accelerator;

struct TrainOutput {
  std::int64_t global_step = 0;
  /// Mean loss over the steps of this call, and of the calls before it that a signal cut short. NaN
  /// if no step was made.
  double training_loss = 0;
  LogValues metrics = {};  ///< train_loss, train_runtime, train_samples_per_second, ….
};

struct PredictionOutput {
  at::Tensor predictions;             ///< {N, …}
  at::Tensor label_ids;               ///< {N, …}; undefined without labels.
  std::vector<at::Tensor> outputs{};  ///< All tensors that the model returned.
  LogValues metrics{};
};

/// Thrown by train() when SIGTERM, SIGUSR1 or SIGINT asked the training to end, on all ranks with the
/// same signal(). A checkpoint has been saved, unless the signal came before the first step, and
/// what() says how to go on. checkpoint() is the folder to go on from; empty if there is none.
/// run_main() then returns 128 + the signal, as shells do: 143 and 138 ask a scheduler to go on.
class TrainingInterrupted : public Error, public ProgramEnd {
 public:
  TrainingInterrupted(int signal, std::filesystem::path checkpoint, const std::string& message)
      : Error(message), signal_(signal), checkpoint_(std::move(checkpoint)) {}
  [[nodiscard]] std::string_view kind() const noexcept override { return "TrainingInterrupted"; }
  [[nodiscard]] int exit_code() const noexcept override { return 128 + signal_; }
  [[nodiscard]] int signal() const { return signal_; }
  [[nodiscard]] const std::filesystem::path& checkpoint() const { return checkpoint_; }

 private:
  int signal_;
  std::filesystem::path checkpoint_;
};

class Trainer {
 public:
  /// Joins the group of ranks, sets the seed, and makes the Accelerator, the callbacks and, with
  /// model_init, the model. [collective] Throws ConfigError for arguments that are out of range or
  /// contradict one another. Throws CommError as PartialState does.
  explicit Trainer(TrainerOptions options);
  ~Trainer();
  Trainer(Trainer&&) noexcept;
  Trainer& operator=(Trainer&&) noexcept;

  /// Trains to the end. Before the first step it checks what can be checked, and prints what will
  /// happen. `resume_from_checkpoint`: true for the newest checkpoint of output_dir, "last" for the
  /// newest one if there is one, or the folder of a checkpoint, also one that Python's Trainer wrote.
  /// Default: args.resume_from_checkpoint.
  /// [collective] Throws ConfigError for mistakes that the checks find, TrainingInterrupted after a
  /// signal, CheckpointError, and whatever a callback, a dataset or a loss throws.
  TrainOutput train(const ResumeOption& resume_from_checkpoint = {});

  /// Returns and logs the loss and the metrics over `eval_dataset`, by default the Trainer's. Their
  /// names begin with `metric_key_prefix` and "_". [collective]
  LogValues evaluate(const EvalDatasets& eval_dataset = {},
                     const std::string& metric_key_prefix = "eval");
  /// Returns what the model predicts for each row. [collective] Memory: all predictions, on each
  /// rank.
  PredictionOutput predict(const TrainerDataset& test_dataset,
                           const std::string& metric_key_prefix = "test");

  /// Writes the model into `folder`, by default output_dir: config.json, the weights, the tokenizer
  /// and training_args.json. from_pretrained() opens the folder, here and in Python. [collective]
  void save_model(const std::filesystem::path& folder = {});
  /// Writes trainer_state.json into output_dir, on the main process. Local.
  void save_state();
  /// Logs values at the present step: to the history, to callbacks and to trackers. Local.
  void log(LogValues logs);
  /// Prints metrics as a table, on the main process. Local.
  void log_metrics(const std::string& split, const LogValues& metrics) const;
  /// Writes <split>_results.json into output_dir and, with `combined`, adds the values to
  /// all_results.json, on the main process. Local.
  void save_metrics(const std::string& split, const LogValues& metrics, bool combined = true) const;
  /// Waits for pushes that are under way, saves the model, and commits it to the hub with its
  /// tokenizer and card. [collective] Only rank 0 gets the commit.
  CommitInfo push_to_hub(const std::string& commit_message = "End of training");
  /// Ends the trackers, as Accelerator::end_training() does. [collective]
  void end();

  void add_callback(std::shared_ptr<TrainerCallback> callback);
  /// Removes and returns the first callback with that name(); null if there is none.
  std::shared_ptr<TrainerCallback> pop_callback(std::string_view name);
  void remove_callback(std::string_view name) { (void)pop_callback(name); }

  [[nodiscard]] const ResolvedArguments& args() const;
  [[nodiscard]] const TrainerState& state() const;
  [[nodiscard]] const TrainableModel& model() const;
  [[nodiscard]] Accelerator& accelerator();
  [[nodiscard]] bool is_world_process_zero() const;
  [[nodiscard]] bool is_local_process_zero() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accelerate
