// Runs made up for tests.
#pragma once

#include <cmath>
#include <filesystem>
#include <string>

#include "accelerate/watch/run_log/run_log_reader.h"
#include "accelerate/watch/run_log/run_log_writer.h"
#include "tests/support/support.h"

namespace accelerate::testing {

/// A folder with a run's log in it.
class RunFolder {
 public:
  [[nodiscard]] std::filesystem::path path() const { return folder_.path(); }
  [[nodiscard]] std::filesystem::path log() const { return folder_.path() / kRunLogFile; }
  /// What a reader that begins now sees.
  [[nodiscard]] RunHistory read() const {
    RunLogReader reader(log());
    reader.poll();
    return reader.history();
  }

 private:
  TemporaryFolder folder_;
};

inline RunBegin a_begin(std::int64_t step = 0) {
  return {.step = step, .time = 1000 + static_cast<double>(step), .max_steps = 100, .model = "Net"};
}

/// A log whose loss falls with the step.
inline RunLogged a_log(std::int64_t step) {
  const auto at = static_cast<double>(step);
  return {.step = step,
          .time = 1000 + at,
          .epoch = at / 50,
          .loss = std::exp(-at / 50),
          .grad_norm = 1.5,
          .learning_rate = 1e-3 * (1 - at / 100),
          .samples_per_second = 32,
          .memory_bytes = 3e9,
          .step_seconds = StepSeconds{0.1, 0.2, 0.4, 0.1, 0.1, 0.1}};
}

inline RunEvaluated an_evaluation(std::int64_t step, double loss, double accuracy) {
  return {.step = step,
          .time = 1000 + static_cast<double>(step),
          .metrics = {{"eval_accuracy", accuracy}, {"eval_loss", loss}}};
}

/// Steps 10, 20, … 100 with evaluations and checkpoints at 50 and 100; the first is the best.
inline RunHistory a_whole_run() {
  RunHistory history;
  history.add(a_begin());
  for (std::int64_t step = 10; step <= 100; step += 10) {
    history.add(a_log(step));
    if (step % 50 != 0) continue;
    history.add(an_evaluation(step, step == 50 ? 0.4 : 0.5, 0.9));
    history.add(RunSaved{.step = step,
                         .time = 1000 + static_cast<double>(step),
                         .folder = "checkpoint-" + std::to_string(step),
                         .best = step == 50});
  }
  history.add(RunEnd{.step = 100, .time = 1101, .metrics = {{"train_loss", 0.6}}});
  return history;
}

/// Text that is up to no good in HTML, in attributes, in scripts and in a terminal.
inline const std::string kHostile =
    "</script><script>alert(1)</script><img src=x "
    "onerror=alert(2)>\"'&]]>\x1b[31m\x07\r\n\xe2\x80\xae"
    "evil\xc2\x9b\xe2\x80\xa8";

}  // namespace accelerate::testing
