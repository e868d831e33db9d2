// The loop of a training: epochs, steps, micro-batches. It reads like a loop written by hand; what
// it calls is in the files beside it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "accelerate/transformers/trainer/loop/loop_record.h"
#include "accelerate/transformers/trainer/loop/loss.h"
#include "accelerate/transformers/trainer/loop/step_clock.h"
#include "accelerate/transformers/trainer/loop/training_plan.h"
#include "accelerate/transformers/trainer/trainer_core.h"

namespace accelerate::detail {

/// What the loop asks its owner to do.
struct LoopServices {
  std::function<LogValues()> evaluate;
  /// Saves a checkpoint of the present step, and the record in it.
  std::function<void(const LoopRecord& record)> save;
  /// Reports where non-finite values come from: from the loss of `batch`, or, with null, from
  /// gradients.
  std::function<void(const Inputs* batch)> explain_non_finite;
};

/// Where a resumed training goes on.
struct Resumed {
  std::int64_t epoch = 0;
  std::int64_t updates = 0;  ///< Steps of that epoch that are already done.
  bool inside = false;       ///< Whether the loader stands inside that epoch, and goes on there.
  EpochSteps steps = {};     ///< The steps of that epoch; the later ones are whole.
  std::optional<LoopRecord> record = {};  ///< What the checkpoint said about the loop.
};

class TrainingLoop {
 public:
  TrainingLoop(TrainerCore& core, const TrainingPlan& plan, PreparedLoader<Inputs> loader,
               LoopServices services);

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
  void end_step(double epoch);
  void log_save_evaluate();
  void save();
  [[nodiscard]] LoopRecord record();
  void log_losses();
  [[nodiscard]] double total_loss();
  /// Adds the floating-point operations of all ranks since the last call to the state. [collective]
  void store_flops();
  void determine_best(const LogValues& metrics);
  void step_plateau(const LogValues& metrics);

  TrainerCore& core_;
  TrainingPlan plan_;
  PreparedLoader<Inputs> loader_;
  LoopServices services_;
  BatchLoss batch_loss_;
  StepClock clock_;
  int stop_signal_ = 0;
  bool saved_at_stop_ = false;
  LoopRecord record_;            // Where the loop is. record() adds the rest.
  double loss_ = 0;              // On this rank, since the last log.
  double total_loss_ = 0;        // Mean over the ranks, up to the last log.
  double loss_before_ = 0;       // The part of the total that mean_loss() leaves out.
  std::int64_t first_step_ = 0;  // The steps that mean_loss() leaves out.
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::int64_t tokens_before_ = 0;  // Tokens seen before this call of train().
  std::int64_t step_logged_ = 0;
  std::int64_t step_due_ = -1;  // The last step whose own checkpoint is there.
  double flops_ = 0;            // On this rank, since store_flops().
  double flops_per_token_ = 0;
  at::Tensor grad_norm_;
  std::optional<double> learning_rate_;
  bool explained_ = false;  // Whether the first non-finite value has been reported.
};

}  // namespace accelerate::detail
