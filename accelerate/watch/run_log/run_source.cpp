#include "accelerate/watch/run_log/run_source.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <utility>

#include "accelerate/base/file_system.h"
#include "accelerate/watch/run_log/python_history.h"
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

}  // namespace accelerate
