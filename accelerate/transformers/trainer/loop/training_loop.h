// The loop of a training: epochs, steps, micro-batches. It reads like a loop written by hand; what
// it calls is in the files beside it.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "accelerate/transformers/trainer/checkpoints/checkpoints.h"
#include "accelerate/transformers/trainer/loop/evaluation.h"
#include "accelerate/transformers/trainer/loop/loss.h"
#include "accelerate/transformers/trainer/trainer_core.h"

namespace accelerate::detail {

class TrainingLoop {
 public:
  /// `checkpoints`: where the loop saves; null for a trial, which saves nothing and does not look
  /// for the cause of non-finite values. All references must outlive this.
  TrainingLoop(TrainerCore& core, const TrainingPlan& plan, PreparedLoader<Inputs> loader,
               Checkpoints* checkpoints);

  /// Trains until the plan is fulfilled, a callback stops it or a signal comes (StopSignals). Before
  /// the first step, does what was due at the checkpoint and was left out by a signal. [collective]
  void run(const Resumed& resumed);

  /// Returns the ranks' mean loss over the steps of this call of train(), and of the calls before
  /// it that a signal cut short; NaN if there was no step. [collective]
  [[nodiscard]] double mean_loss();
  /// The signal on which the ranks stopped; 0 if none.
  [[nodiscard]] int stop_signal() const { return stop_signal_; }
  /// Whether a checkpoint was saved on that signal; none is where it came before the first step.
  [[nodiscard]] bool saved_at_stop() const { return saved_at_stop_; }
  [[nodiscard]] StepClock& clock() { return clock_; }

 private:
  using Batches = std::vector<Inputs>;
  using Iterator = LoaderIterator<Inputs>;

  void take_up(const LoopRecord& record);
  void make_up(const LoopRecord& record);
  void stop_late();
  [[nodiscard]] double weight_of_signal() const;
  void note_signal(double sum);
  [[nodiscard]] bool agree_to_stop();
  void enter_epoch(const Resumed& at);
  void begin_epoch(const Resumed& at);
  void run_epoch(const Resumed& at);
  void end_epoch();
  [[nodiscard]] bool is_stopping() const;
  [[nodiscard]] Batches fetch(Iterator& batches, std::int64_t count, bool& begun);
  void run_step(const Batches& batches);
  [[nodiscard]] at::Tensor agree_on_step(const Batches& batches);
  [[nodiscard]] double micro_step(const Inputs& batch, const at::Tensor& num_items, bool syncs,
                                  std::size_t micro_batches);
  void add_loss(double loss, const Inputs& batch);
  void update();
  [[nodiscard]] at::Tensor clip();
  void check_gradients(const at::Tensor& norm);
  void explain(const Inputs* batch);
  void end_step(double epoch);
  void log_save_evaluate();
  void save_in_evaluation();
  void save();
  [[nodiscard]] LoopRecord record();
  void log_losses();
  [[nodiscard]] double total_loss();
  /// Adds the floating-point operations of all ranks since the last call to the state. [collective]
  void store_flops();
  void step_plateau(const LogValues& metrics);

  TrainerCore& core_;
  TrainingPlan plan_;
  PreparedLoader<Inputs> loader_;
  Checkpoints* checkpoints_;
  BatchLoss batch_loss_;
  StepClock clock_;
  int stop_signal_ = 0;
  bool saved_at_stop_ = false;
  EvaluationProgress evaluated_;  // At the present step.
  LoopRecord record_;             // Where the loop is. record() adds the rest.
  double loss_ = 0;               // On this rank, since the last log.
  double total_loss_ = 0;         // Mean over the ranks, up to the last log.
  double loss_before_ = 0;        // The part of the total that mean_loss() leaves out.
  std::int64_t first_step_ = 0;   // The steps that mean_loss() leaves out.
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::int64_t tokens_before_ = 0;  // Tokens seen before this call of train().
  std::int64_t step_logged_ = 0;
  std::int64_t step_due_ = -1;  // The last step whose own checkpoint is there.
  double flops_ = 0;            // On this rank, since store_flops().
  double flops_per_token_ = 0;
  at::Tensor grad_norm_;
  std::optional<double> learning_rate_;
  bool explained_;  // Whether the first non-finite value has been reported.
};

/// Returns a sentence that names the step and, for a model that is not sharded, the place from which
/// the first NaN or infinity comes. With `batch`: the operator that gave a loss that is not finite,
/// found by computing the forward of `batch` again and looking at each result. With null: the first
/// parameter whose gradient is not finite. Local. Cost: a forward, in which every result is
/// read.
[[nodiscard]] std::string explain_non_finite(TrainerCore& core, const Inputs* batch);

/// Trains a few steps and saves in the middle, continues from there a second time, and compares the
/// weights. Then everything is as it was before. Callbacks are not called. Returns a sentence with
/// the result. [collective] Throws CheckpointError that names the first part that differs, and
/// ConfigError when an epoch has too few steps. Cost: six steps and two checkpoints in output_dir,
/// which are removed.
[[nodiscard]] std::string verify_resume(TrainerCore& core, const TrainingPlan& plan,
                                        const PreparedLoader<Inputs>& loader);

}  // namespace accelerate::detail
