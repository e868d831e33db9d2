// Where a training is: what callbacks see, what trainer_state.json holds, and what callbacks ask
// for. Names are those of Transformers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/formats/documents/document.h"

namespace accelerate {

/// Values by name, in order: what is logged, and what an evaluation gives.
class LogValues : public std::vector<std::pair<std::string, double>> {
 public:
  using vector::vector;
  LogValues() = default;
  LogValues(std::vector<std::pair<std::string, double>> values)  // NOLINT: metrics are values.
      : vector(std::move(values)) {}

  /// nullptr if there is none.
  [[nodiscard]] const double* find(std::string_view name) const;
  /// Changes a value or adds it behind the others.
  void set(std::string_view name, double value);
};

/// What callbacks ask the loop for. The loop lowers a flag when it has done what it asks.
struct TrainerControl {
  bool should_training_stop = false;
  bool should_epoch_stop = false;
  bool should_save = false;
  bool should_evaluate = false;
  bool should_log = false;
  bool was_interrupted = false;  ///< By a signal: what is saved now is for going on.
};

struct TrainerState {
  double epoch = 0;              ///< Epochs done, with the share of the present one.
  std::int64_t global_step = 0;  ///< Optimizer steps done.
  std::int64_t max_steps = 0;    ///< Steps of the whole training.
  std::int64_t logging_steps = 500, eval_steps = 500, save_steps = 500;  ///< Resolved.
  std::optional<std::int64_t> train_batch_size = {};                     ///< Of a rank.
  std::int64_t num_train_epochs = 0;
  std::int64_t num_input_tokens_seen = 0;
  double total_flos = 0;
  std::vector<LogValues> log_history = {};  ///< Each with "step".
  std::optional<double> best_metric = {};
  std::optional<std::int64_t> best_global_step = {};
  std::string best_model_checkpoint = {};  ///< "" if there is none.
  bool is_local_process_zero = true, is_world_process_zero = true;
  /// Of callbacks that keep a state, by their class: JSON {"args": {…}, "attributes": {…}}.
  std::map<std::string, Node> stateful_callbacks = {};
  TrainerControl control = {};  ///< Saved among stateful_callbacks, as TrainerControl.

  /// The text of trainer_state.json, as Python's TrainerState writes and reads it.
  [[nodiscard]] std::string to_json() const;
  /// Throws ConfigError for a text that is none. Fields that are unknown are left out.
  [[nodiscard]] static TrainerState from_json(std::string_view text, const std::string& name);
  /// Reads `file`. Throws FileError, ConfigError.
  [[nodiscard]] static TrainerState load(const std::filesystem::path& file);
};

}  // namespace accelerate
