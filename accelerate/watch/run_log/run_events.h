// What a training reports while it runs: the events of run_log.jsonl, one structure each.
// docs/formats/run_log.md has the format.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "accelerate/formats/documents/document.h"

namespace accelerate {

/// The file's name in the folder of a run.
inline constexpr std::string_view kRunLogFile = "run_log.jsonl";

/// Numbers by name, in the order in which they are shown. NaN and infinities are allowed.
using RunMetrics = std::vector<std::pair<std::string, double>>;

inline constexpr std::size_t kStepParts = 6;

/// Mean seconds of a step since the last log, split by activity.
struct StepSeconds {
  double data = 0;           ///< Waiting for the next batch.
  double forward = 0;        ///< The model and the loss.
  double backward = 0;       ///< Gradients, without the wait for other ranks.
  double communication = 0;  ///< Waiting for other ranks.
  double optimizer = 0;      ///< Clipping, the update, the schedule.
  double other = 0;          ///< Logs, callbacks and everything else.

  /// The names of the fields in order: "data", "forward", ….
  static constexpr std::array<std::string_view, kStepParts> kNames = {
      "data", "forward", "backward", "communication", "optimizer", "other"};

  /// The fields in the order of kNames.
  [[nodiscard]] std::array<double, kStepParts> parts() const {
    return {data, forward, backward, communication, optimizer, other};
  }
};

/// A training starts, or continues from a checkpoint. Earlier lines with a later step are void.
struct RunBegin {
  std::int64_t step = 0;            ///< Optimizer steps done; when resumed, the checkpoint's.
  std::optional<double> time = {};  ///< Unix seconds; the writer's clock when absent.
  std::optional<std::int64_t> max_steps = {};           ///< Optimizer steps in total.
  std::optional<double> num_train_epochs = {};          ///< Passes over the data.
  std::optional<std::int64_t> steps_per_epoch = {};     ///< Optimizer steps of one epoch.
  std::optional<std::int64_t> num_processes = {};       ///< Ranks.
  std::string model = {};                               ///< Its class or name.
  std::optional<std::int64_t> parameters = {};          ///< Elements of all parameters.
  std::optional<std::int64_t> trained_parameters = {};  ///< Elements that get gradients.
  std::optional<std::int64_t> train_examples = {};      ///< Rows of the training data.
  std::optional<std::int64_t> total_batch_size = {};    ///< Rows a step, summed over all ranks.
  Node arguments = {};          ///< A map of all training arguments; null when not known.
  Node argument_defaults = {};  ///< The defaults of these arguments; null when not known.
  std::optional<std::string> resumed_from = {};  ///< "checkpoint-12".
  std::string strategy = {};                     ///< "FULL_SHARD, 2 units".
  std::string precision = {};                    ///< "bf16".
  std::string device = {};                       ///< "cpu", "cuda: NVIDIA H100".
};

/// The training reports its current values.
struct RunLogged {
  std::int64_t step = 0;
  std::optional<double> time = {};
  std::optional<double> epoch = {};
  std::optional<double> loss = {};  ///< Mean over the steps since the last log.
  std::optional<double> grad_norm = {};
  std::optional<double> learning_rate = {};
  std::optional<double> samples_per_second = {};
  std::optional<double> tokens_per_second = {};
  std::optional<double> memory_bytes = {};  ///< Peak of the busiest device.
  std::optional<StepSeconds> step_seconds = {};
  RunMetrics others = {};  ///< Further numbers that the program logged.
};

/// A model was evaluated.
struct RunEvaluated {
  std::int64_t step = 0;
  std::optional<double> time = {};
  std::optional<double> epoch = {};
  RunMetrics metrics = {};  ///< "eval_loss" and the like.
};

/// A checkpoint is complete.
struct RunSaved {
  std::int64_t step = 0;
  std::optional<double> time = {};
  std::string folder = {};  ///< "checkpoint-228".
  bool best = false;        ///< Whether it is the best so far.
};

/// A message for whoever reads the report.
struct RunNote {
  std::int64_t step = 0;
  std::optional<double> time = {};
  std::string text = {};
  std::string level = "info";  ///< "info", "warning", "error".
};

/// The training is over.
struct RunEnd {
  std::int64_t step = 0;
  std::optional<double> time = {};
  std::string reason = "finished";  ///< "finished", "stopped", "SIGTERM", "error".
  RunMetrics metrics = {};          ///< "train_loss", "train_runtime" and the like.
};

using RunEvent = std::variant<RunBegin, RunLogged, RunEvaluated, RunSaved, RunNote, RunEnd>;

}  // namespace accelerate
