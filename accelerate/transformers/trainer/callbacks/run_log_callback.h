// Writes output_dir/run_log.jsonl, which `accelerate report` and `accelerate watch` read.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "accelerate/comm/communicator.h"
#include "accelerate/transformers/trainer/callbacks/trainer_callback.h"
#include "accelerate/transformers/trainer/data/training_plan.h"
#include "accelerate/watch/run_log/run_events.h"
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

enum class StepPart : std::uint8_t { data, forward, backward, communication, optimizer, other };

/// Adds up the time between calls for each part of a step. Measured on the host: work that a GPU
/// does later counts where the host waits for it.
class StepClock {
 public:
  /// Counts the time since the last call, or restart(), for `part`. The part of it that was spent
  /// waiting for other ranks counts for communication.
  void spent_on(StepPart part) {
    const auto now = Clock::now();
    const double passed = std::chrono::duration<double>(now - last_).count();
    const double waited = seconds_waited() - waited_;
    add(part, passed - waited);
    add(StepPart::communication, waited);
    restart();
  }
  /// Counts the time since the last call for nothing.
  void restart() {
    last_ = Clock::now();
    waited_ = seconds_waited();
  }
  void end_step() { ++steps_; }

  /// Returns the mean seconds of a step in each part since the last take().
  [[nodiscard]] StepSeconds take() {
    auto mean = seconds_;
    for (double& part : mean) part = steps_ > 0 ? part / static_cast<double>(steps_) : 0;
    seconds_ = {};
    steps_ = 0;
    return {mean[0], mean[1], mean[2], mean[3], mean[4], mean[5]};
  }

 private:
  using Clock = std::chrono::steady_clock;
  void add(StepPart part, double seconds) { seconds_[static_cast<std::size_t>(part)] += seconds; }

  Clock::time_point last_ = Clock::now();
  double waited_ = seconds_waited();
  std::array<double, kStepParts> seconds_{};
  std::int64_t steps_ = 0;
};

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
