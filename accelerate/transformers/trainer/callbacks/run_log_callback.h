// Writes output_dir/run_log.jsonl, which `accelerate report` and `accelerate watch` read.
#pragma once

#include <optional>
#include <string>

#include "accelerate/transformers/trainer/callbacks/step_clock.h"
#include "accelerate/transformers/trainer/callbacks/trainer_callback.h"
#include "accelerate/transformers/trainer/data/training_plan.h"
#include "accelerate/watch/run_log/run_log_writer.h"

namespace accelerate {

// Hands what a training logs to the trackers of report_to.

/// Names are as in the original: train/loss, eval/accuracy, test/loss. Source: `rewrite_logs` of
/// Transformers.
class TrackingCallback final : public TrainerCallback {
 public:
  [[nodiscard]] std::string name() const override { return "TrackingCallback"; }
  void on_log(TrainerEvent& event, const LogValues& logs) override;

 private:
  bool started_ = false;
};

}  // namespace accelerate

namespace accelerate::detail {

/// Writes on the main process; does nothing elsewhere. If the log cannot be written, warns once and
/// stops writing.
class RunLogCallback final : public TrainerCallback {
 public:
  [[nodiscard]] std::string name() const override { return "RunLogCallback"; }

  /// Begins the log of a training that starts anew, or goes on from `resumed_from`.
  void begin(const TrainerEvent& event, const TrainingPlan& plan,
             const std::optional<std::string>& resumed_from);
  /// Sets the clock whose times go into the log; null: no times.
  void set_clock(StepClock* clock) { clock_ = clock; }
  void note(const TrainerEvent& event, const std::string& text, const std::string& level);
  void end(const TrainerEvent& event, const std::string& reason, const LogValues& metrics);

  void on_log(TrainerEvent& event, const LogValues& logs) override;
  void on_evaluate(TrainerEvent& event, const LogValues& metrics) override;
  void on_save(TrainerEvent& event, const std::filesystem::path& folder) override;

 private:
  template <typename Write>
  void write(Write write);

  std::optional<RunLogWriter> log_;
  StepClock* clock_ = nullptr;
  std::chrono::steady_clock::time_point logged_{};
  std::int64_t step_logged_ = 0, tokens_logged_ = 0, total_batch_size_ = 0;
};

}  // namespace accelerate::detail
