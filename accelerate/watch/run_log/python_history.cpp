#include "accelerate/watch/run_log/python_history.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "accelerate/base/file_system.h"
#include "accelerate/base/text.h"
#include "accelerate/watch/run_log/run_event_json.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;
using StateJson = nlohmann::json;

constexpr std::size_t kMostOfState = std::size_t{256} << 20;
constexpr std::string_view kCheckpointPrefix = "checkpoint-";

std::optional<double> take_number(StateJson& entry, const char* name) {
  const auto found = entry.find(name);
  if (found == entry.end()) return std::nullopt;
  const auto number = detail::run_number(*found);
  entry.erase(found);
  return number;
}

std::int64_t take_step(StateJson& entry, const char* name) {
  const double step = take_number(entry, name).value_or(0);
  return std::abs(step) < 9e18 ? static_cast<std::int64_t>(step) : 0;
}

RunMetrics numbers_left(const StateJson& entry) {
  RunMetrics metrics;
  for (const auto& [name, value] : entry.items())
    if (const auto number = detail::run_number(value)) metrics.emplace_back(name, *number);
  return metrics;
}

bool has_prefix(const StateJson& entry, std::string_view prefix) {
  return std::ranges::any_of(entry.items(), [&](const auto& field) {
    return std::string_view(field.key()).starts_with(prefix);
  });
}

RunEvent event_of_entry(StateJson entry) {
  const auto step = take_step(entry, "step");
  const auto epoch = take_number(entry, "epoch");
  if (entry.contains("train_loss")) return RunEnd{.step = step, .metrics = numbers_left(entry)};
  if (has_prefix(entry, "eval_") && !entry.contains("loss"))
    return RunEvaluated{.step = step, .epoch = epoch, .metrics = numbers_left(entry)};
  RunLogged logged{.step = step, .epoch = epoch};
  logged.loss = take_number(entry, "loss");
  logged.grad_norm = take_number(entry, "grad_norm");
  logged.learning_rate = take_number(entry, "learning_rate");
  logged.others = numbers_left(entry);
  return logged;
}

std::string last_name(const StateJson& state, const char* name) {
  const auto found = state.find(name);
  if (found == state.end() || !found->is_string()) return "";
  return fs::path(found->get<std::string>()).filename().string();
}

// Returns the folder in which a run keeps its checkpoints, given the folder of a state file.
fs::path run_folder_of(const fs::path& folder) {
  const fs::path whole = fs::absolute(folder).lexically_normal();
  const fs::path named = whole.has_filename() ? whole : whole.parent_path();
  return checkpoint_step(named.filename()) >= 0 ? named.parent_path() : named;
}

void add_checkpoints(RunHistory& history, const fs::path& folder, const std::string& best) {
  std::vector<RunSaved> saves;
  for (const auto& name : real_file_system().list(folder)) {
    const std::int64_t step = checkpoint_step(name);
    if (step >= 0 && step <= history.step)
      saves.push_back({.step = step, .folder = name, .best = name == best});
  }
  const bool named = std::ranges::any_of(saves, &RunSaved::best);
  const std::int64_t step_of_best = checkpoint_step(best);
  if (!named && step_of_best >= 0)
    saves.push_back({.step = step_of_best, .folder = best, .best = true});
  std::ranges::stable_sort(saves, {}, &RunSaved::step);
  for (auto& save : saves) history.add(std::move(save));
}

StateJson parsed_state(const fs::path& path) {
  const std::string text = read_file(real_file_system(), path, kMostOfState);
  StateJson state = detail::parse_lenient_json(text);
  if (!state.is_object() || !state.contains("log_history") || !state["log_history"].is_array())
    throw ConfigError("'" + path.string() +
                      "' is not a Trainer state: it must be a JSON object with a list "
                      "'log_history'. Was the file cut, or is it being written?");
  return state;
}

RunBegin begin_of_state(StateJson& state) {
  RunBegin begin;
  if (const auto steps = take_step(state, "max_steps"); steps > 0) begin.max_steps = steps;
  begin.num_train_epochs = take_number(state, "num_train_epochs");
  return begin;
}

}  // namespace

std::int64_t checkpoint_step(const std::string& name) {
  if (!name.starts_with(kCheckpointPrefix)) return -1;
  const auto digits = std::string_view(name).substr(kCheckpointPrefix.size());
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string_view::npos) return -1;
  return parse_int(digits).value_or(-1);
}

RunHistory read_trainer_state(const fs::path& path) {
  StateJson state = parsed_state(path);
  RunHistory history;
  history.add(begin_of_state(state));
  history.is_live = false;
  for (auto& entry : state["log_history"])
    if (entry.is_object()) history.add(event_of_entry(std::move(entry)));
  history.step = std::max(history.step, take_step(state, "global_step"));
  history.best_value = take_number(state, "best_metric");
  const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
  add_checkpoints(history, run_folder_of(folder), last_name(state, "best_model_checkpoint"));
  return history;
}

}  // namespace accelerate
