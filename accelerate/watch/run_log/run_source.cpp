#include "accelerate/watch/run_log/run_source.h"

#include <sys/stat.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "accelerate/base/file_system.h"
#include "accelerate/base/text.h"
#include "accelerate/watch/run_log/run_event_json.h"
#include "accelerate/watch/run_log/run_log_reader.h"

namespace accelerate {

namespace fs = std::filesystem;

class RunSource::Reader {
 public:
  explicit Reader(fs::path file) : file_(std::move(file)) {}
  virtual ~Reader() = default;
  virtual bool refresh() = 0;
  [[nodiscard]] virtual const RunHistory& history() const = 0;
  [[nodiscard]] const fs::path& file() const { return file_; }

 private:
  fs::path file_;
};

class RunSource::LogFile final : public Reader {
 public:
  explicit LogFile(const fs::path& file) : Reader(file), log_(file) { log_.poll(); }
  bool refresh() override { return log_.poll(); }
  [[nodiscard]] const RunHistory& history() const override { return log_.history(); }

 private:
  RunLogReader log_;
};

namespace {

constexpr const char* kStateFile = "trainer_state.json";

// Identifies one version of a file.
using FileVersion = std::array<std::int64_t, 4>;

FileVersion version_of(const fs::path& path) {
  struct ::stat status{};
  if (::stat(path.c_str(), &status) != 0) return {};
  return {static_cast<std::int64_t>(status.st_ino), status.st_size, status.st_mtim.tv_sec,
          status.st_mtim.tv_nsec};
}

bool is_file(const fs::path& path) {
  return real_file_system().status(path).kind == FileKind::file;
}

// Returns the state file of the newest checkpoint; "" if no checkpoint has one.
fs::path newest_checkpoint_state(const fs::path& folder) {
  std::int64_t newest = -1;
  fs::path found;
  for (const auto& name : real_file_system().list(folder)) {
    const std::int64_t step = checkpoint_step(name);
    if (step <= newest || !is_file(folder / name / kStateFile)) continue;
    newest = step;
    found = folder / name / kStateFile;
  }
  return found;
}

fs::path find_state(const fs::path& folder) {
  return is_file(folder / kStateFile) ? folder / kStateFile : newest_checkpoint_state(folder);
}

[[noreturn]] void refuse_no_run(const fs::path& run, FileKind kind) {
  const std::string name = "'" + run.string() + "'";
  if (run.empty())
    throw ConfigError(
        "RUN is empty: name the folder of a run. Is a variable of the shell not set?");
  if (kind == FileKind::none)
    throw ConfigError("there is no folder " + name +
                      ": name the output_dir of a training, with its run_log.jsonl");
  throw ConfigError("there is no run in " + name +
                    ": neither run_log.jsonl (written by this Trainer), nor trainer_state.json "
                    "(of Python's), nor a checkpoint-N folder with one. Name the output_dir of a "
                    "training; its first line comes when the training starts");
}

}  // namespace

class RunSource::StateFile final : public Reader {
 public:
  explicit StateFile(const fs::path& file, fs::path run)
      : Reader(file), run_(std::move(run)), shown_(file), version_(version_of(file)) {
    history_ = read_trainer_state(file);
  }

  bool refresh() override {
    fs::path file = is_file(run_) ? run_ : find_state(run_);
    const FileVersion version = version_of(file);
    if (file.empty() || (file == shown_ && version == version_)) return false;
    try {
      history_ = read_trainer_state(file);
    } catch (const Error&) {
      return false;  // The file is being written.
    }
    shown_ = std::move(file);
    version_ = version;
    return true;
  }

  [[nodiscard]] const RunHistory& history() const override { return history_; }

 private:
  fs::path run_;
  fs::path shown_;
  FileVersion version_;
  RunHistory history_;
};

RunSource::RunSource(const fs::path& run) {
  const FileKind kind = run.empty() ? FileKind::none : real_file_system().status(run).kind;
  if (kind == FileKind::none) refuse_no_run(run, kind);
  const fs::path whole = fs::absolute(run).lexically_normal();
  folder_ = kind == FileKind::directory ? whole : whole.parent_path();
  if (!folder_.has_filename()) folder_ = folder_.parent_path();
  name_ = folder_.filename().string();
  reader_ = kind == FileKind::directory ? open_folder(run) : open_file(run);
}

std::unique_ptr<RunSource::Reader> RunSource::open_file(const fs::path& file) {
  if (file.extension() == ".jsonl") return std::make_unique<LogFile>(file);
  return std::make_unique<StateFile>(file, file);
}

std::unique_ptr<RunSource::Reader> RunSource::open_folder(const fs::path& folder) {
  if (is_file(folder / kRunLogFile)) return std::make_unique<LogFile>(folder / kRunLogFile);
  const fs::path state = find_state(folder);
  if (state.empty()) refuse_no_run(folder, FileKind::directory);
  return std::make_unique<StateFile>(state, folder);
}

RunSource::~RunSource() = default;

bool RunSource::refresh() {
  return reader_->refresh();
}

const RunHistory& RunSource::history() const {
  return reader_->history();
}

const fs::path& RunSource::file() const {
  return reader_->file();
}

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
