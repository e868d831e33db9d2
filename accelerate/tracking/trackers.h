// The trackers of a run, chosen by log_with: what the Accelerator does with them, rank by rank.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "accelerate/tracking/tracker.h"

namespace accelerate {

/// A tracker by name, or one of your own.
class LogWith {
 public:
  // NOLINTBEGIN(google-explicit-constructor): {"tensorboard", my_tracker} is the point.
  LogWith(const char* name) : choice_(std::string(name)) {}
  LogWith(std::string name) : choice_(std::move(name)) {}
  template <std::derived_from<GeneralTracker> Tracker>
  LogWith(std::shared_ptr<Tracker> tracker)
      : choice_(std::shared_ptr<GeneralTracker>(std::move(tracker))) {}
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] const std::string* name() const { return std::get_if<std::string>(&choice_); }
  /// Null when it is a name.
  [[nodiscard]] std::shared_ptr<GeneralTracker> tracker() const;

 private:
  std::variant<std::string, std::shared_ptr<GeneralTracker>> choice_;
};

/// init_kwargs: options by tracker.
using TrackerKwargs = std::map<std::string, TrackerConfig>;

/// Which trackers there are, on this rank. Not thread-safe.
class Trackers {
 public:
  /// Checks every choice; "all" is every name of available_trackers() that can run, beside what
  /// else is given (mlflow can when a server is named); a choice that comes twice counts once.
  /// Throws ConfigError: an unknown name, no logging_dir where one is needed, a tracker object with
  /// the name of another choice.
  Trackers(const std::vector<LogWith>& log_with, std::filesystem::path logging_dir,
           bool is_main_process);
  ~Trackers();
  Trackers(Trackers&&) noexcept;
  Trackers& operator=(Trackers&&) noexcept;

  /// Makes and starts them, and hands them `config`. Local. Throws ConfigError, and what a tracker
  /// throws; then there are none: those that had started are dropped. UsageError when called a
  /// second time before finish().
  void init(const std::string& project_name, const TrackerConfig& config,
            const TrackerKwargs& init_kwargs);
  /// This and the next two reach all trackers, also when one throws; the first exception is thrown
  /// again at the end. Throw UsageError before init(): values for no run.
  void log(const TrackerValues& values, std::optional<std::int64_t> step);
  void log_images(const TrackerImages& images, std::optional<std::int64_t> step);
  void log_table(const std::string& name, const TrackerTable& table,
                 std::optional<std::int64_t> step);
  /// The tracker called `name`; one that does nothing where this rank has none of it. Throws
  /// UsageError for a name that log_with does not have, and before init().
  [[nodiscard]] std::shared_ptr<GeneralTracker> get(const std::string& name) const;
  /// Those that were started on this rank.
  [[nodiscard]] const std::vector<std::shared_ptr<GeneralTracker>>& active() const {
    return active_;
  }
  /// Finishes all, also when one throws; the first exception is thrown again at the end.
  void finish();

 private:
  struct Choice;
  void make(const std::string& project_name, const TrackerKwargs& init_kwargs);
  void check_kwargs(const TrackerKwargs& init_kwargs) const;
  [[nodiscard]] std::vector<std::string> names() const;
  void need_started(const char* call) const;
  void add(Choice choice);

  std::vector<Choice> choices_;
  std::filesystem::path logging_dir_;
  bool is_main_process_;
  bool started_ = false;
  bool ended_ = false;
  std::vector<std::string> active_names_;  // By which they were chosen.
  std::vector<std::shared_ptr<GeneralTracker>> active_;
};

}  // namespace accelerate
