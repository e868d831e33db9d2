// Shows the progress of a training: bars on a terminal and a line for each log, or the lines alone.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "accelerate/base/terminal/progress_bar.h"
#include "accelerate/transformers/trainer/callbacks/trainer_callback.h"

namespace accelerate {

/// Prints each log as a line to standard output, on the main process.
/// Source: `PrinterCallback` of Transformers.
class PrinterCallback : public TrainerCallback {
 public:
  [[nodiscard]] std::string name() const override { return "PrinterCallback"; }
  void on_log(TrainerEvent& event, const LogValues& logs) override;
};

/// Shows on standard error, besides the lines, a bar of the steps and a bar of the batches of an
/// evaluation. Source: `ProgressCallback` of Transformers.
class ProgressCallback final : public PrinterCallback {
 public:
  [[nodiscard]] std::string name() const override { return "ProgressCallback"; }
  void on_train_begin(TrainerEvent& event) override;
  void on_step_end(TrainerEvent& event) override;
  void on_log(TrainerEvent& event, const LogValues& logs) override;
  void on_prediction_step(TrainerEvent& event, std::optional<std::size_t> batches) override;
  void on_evaluate(TrainerEvent& event, const LogValues& metrics) override;
  void on_predict(TrainerEvent& event, const LogValues& metrics) override;
  void on_train_end(TrainerEvent& event) override;

 private:
  std::unique_ptr<ProgressBar> training_, evaluation_;
};

/// Returns a line such as "step 20, epoch 0.18: loss 1.9312, grad_norm 4.21, learning_rate
/// 1.9e-05".
[[nodiscard]] std::string log_line(const TrainerState& state, const LogValues& logs);

}  // namespace accelerate
