// The state of a training: what callbacks see, what trainer_state.json holds, and what callbacks
// ask for. Names are as in Transformers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accelerate/formats/documents/document.h"

namespace accelerate {

/// Values by name, in order: what is logged, and what an evaluation returns.
class LogValues {
 public:
  using Value = std::pair<std::string, double>;

  LogValues() = default;
  LogValues(std::initializer_list<Value> values) : values_(values) {}
  LogValues(std::vector<Value> values) : values_(std::move(values)) {}  // NOLINT: metrics.

  [[nodiscard]] const std::vector<Value>& values() const { return values_; }
  [[nodiscard]] auto begin() const { return values_.begin(); }
  [[nodiscard]] auto end() const { return values_.end(); }
  [[nodiscard]] bool empty() const { return values_.empty(); }
  [[nodiscard]] std::size_t size() const { return values_.size(); }
  [[nodiscard]] const Value& operator[](std::size_t index) const { return values_.at(index); }
  /// Returns the value of that name. Throws UsageError that lists the names that there are.
  [[nodiscard]] double operator[](std::string_view name) const;
  /// Returns nullptr if there is no value of that name.
  [[nodiscard]] const double* find(std::string_view name) const;
  /// Changes the value of that name, or appends one.
  void set(std::string_view name, double value);
  /// Returns the values in the order of their names.
  [[nodiscard]] LogValues sorted() const;
  bool operator==(const LogValues&) const = default;

 private:
  std::vector<Value> values_;
};

/// What callbacks ask the loop for. The loop lowers a flag when it has done what the flag asks for.
struct TrainerControl {
  bool should_training_stop = false;
  bool should_epoch_stop = false;
  bool should_save = false;
  bool should_evaluate = false;
  bool should_log = false;
  bool was_interrupted = false;  ///< By a signal: a checkpoint must then allow resuming.
};

struct TrainerState {
  double epoch = 0;              ///< Epochs done, with the fraction of the present one.
  std::int64_t global_step = 0;  ///< Optimizer steps done.
  std::int64_t max_steps = 0;    ///< Steps of the whole training.
  std::int64_t logging_steps = 500, eval_steps = 500, save_steps = 500;  ///< Numbers of steps.
  std::optional<std::int64_t> train_batch_size = {};                     ///< Batch size of a rank.
  std::int64_t num_train_epochs = 0;
  std::int64_t num_input_tokens_seen = 0;
  double total_flos = 0;
  /// Each entry has "step", and its names sorted, as in trainer_state.json.
  std::vector<LogValues> log_history = {};
  std::optional<double> best_metric = {};
  std::optional<std::int64_t> best_global_step = {};
  std::string best_model_checkpoint = {};  ///< "" if there is none.
  bool is_local_process_zero = true, is_world_process_zero = true;
  /// The states of callbacks that keep one, by class: JSON {"args": {…}, "attributes": {…}}.
  std::map<std::string, Node> stateful_callbacks = {};
  TrainerControl control = {};  ///< Saved in stateful_callbacks, as TrainerControl.

  /// Returns the text of trainer_state.json, as Python's TrainerState writes and reads it.
  [[nodiscard]] std::string to_json() const;
  /// Throws ConfigError for a text that is not a trainer_state.json. Ignores unknown fields. `name`
  /// stands for the text in messages.
  [[nodiscard]] static TrainerState from_json(std::string_view text, const std::string& name);
  /// Reads `file`. Throws FileError, ConfigError.
  [[nodiscard]] static TrainerState load(const std::filesystem::path& file);
};

}  // namespace accelerate
