// The trackers of a run, chosen by log_with, on one rank.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "accelerate/watch/trackers/tracker.h"

namespace accelerate {

/// A tracker by name, or an object of yours.
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
  /// Returns null if it is a name.
  [[nodiscard]] std::shared_ptr<GeneralTracker> tracker() const;

 private:
  std::variant<std::string, std::shared_ptr<GeneralTracker>> choice_;
};

/// init_kwargs: options by tracker.
using TrackerInitOptions = std::map<std::string, ConfigMap>;

/// The trackers on this rank. Not thread-safe.
class Trackers {
 public:
  /// Checks every choice. "all" adds every name of available_trackers() that can run (mlflow can if
  /// a server is named). A choice that occurs twice counts once. Throws ConfigError for an unknown
  /// name, for a tracker that needs a logging_dir without one, and for a tracker object with the
  /// name of another choice.
  Trackers(const std::vector<LogWith>& log_with, std::filesystem::path logging_dir,
           bool is_main_process);
  ~Trackers();
  Trackers(Trackers&&) noexcept;
  Trackers& operator=(Trackers&&) noexcept;

  /// Makes and starts the trackers, and gives them `config`. Local. Throws ConfigError, and what a
  /// tracker throws; then no tracker is left, even if some had started. Throws UsageError if called
  /// again before finish().
  void init(const std::string& project_name, const ConfigMap& config,
            const TrackerInitOptions& init_kwargs);
  /// This and the next two functions reach all trackers even if one throws; the first exception is
  /// rethrown at the end. They throw UsageError before init(), when there is no run.
  void log(const TrackerValues& values, std::optional<std::int64_t> step);
  void log_images(const TrackerImages& images, std::optional<std::int64_t> step);
  void log_table(const std::string& name, const TrackerTable& table,
                 std::optional<std::int64_t> step);
  /// Returns the tracker called `name`, or one that does nothing if this rank does not have it.
  /// Throws UsageError for a name that log_with does not have, and before init().
  [[nodiscard]] std::shared_ptr<GeneralTracker> get(const std::string& name) const;
  /// The trackers that were started on this rank.
  [[nodiscard]] const std::vector<std::shared_ptr<GeneralTracker>>& active() const {
    return active_;
  }
  /// Finishes all trackers even if one throws; the first exception is rethrown at the end.
  void finish();

 private:
  struct Choice;
  void make(const std::string& project_name, const TrackerInitOptions& init_kwargs);
  void check_kwargs(const TrackerInitOptions& init_kwargs) const;
  [[nodiscard]] std::vector<std::string> names() const;
  void need_started(const char* call) const;
  void add(Choice choice);

  std::vector<Choice> choices_;
  std::filesystem::path logging_dir_;
  bool is_main_process_;
  bool started_ = false;
  bool ended_ = false;
  std::vector<std::string> active_names_;  // The names by which they were chosen.
  std::vector<std::shared_ptr<GeneralTracker>> active_;
};

}  // namespace accelerate
