// The interface of experiment trackers, for ours and for yours. Names and meaning are those of
// `accelerate.tracking.GeneralTracker`.
//
//   class Console final : public GeneralTracker {
//     std::string name() const override { return "console"; }
//     void log(const TrackerValues& values, std::optional<std::int64_t> step) override { … }
//   };
//   Accelerator accelerator({.log_with = {"tensorboard", std::make_shared<Console>()}});
//
// Threads: the training thread calls; a tracker that waits for a disk or a network does so on a
// thread of its own, so that training never does.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/tracking/values.h"

namespace accelerate {

class GeneralTracker {
 public:
  virtual ~GeneralTracker() = default;

  /// By which get_tracker() finds it, unless log_with named a registered class: then by that name.
  [[nodiscard]] virtual std::string name() const = 0;
  /// Whether it writes below ProjectConfiguration::logging_dir, which must be set then.
  [[nodiscard]] virtual bool requires_logging_directory() const { return false; }
  /// Whether only rank 0 tracks; otherwise every rank does, each with an object of its own.
  [[nodiscard]] virtual bool main_process_only() const { return true; }

  /// Called once, by init_trackers(), before anything else.
  virtual void start() {}
  /// The settings of the run, for people to compare runs by.
  virtual void store_init_configuration(const TrackerConfig& config) { (void)config; }
  /// The values of a step. Must not wait.
  virtual void log(const TrackerValues& values, std::optional<std::int64_t> step) = 0;
  /// A tracker that keeps no images, or no tables, says so once and goes on.
  virtual void log_images(const TrackerImages& images, std::optional<std::int64_t> step);
  virtual void log_table(const std::string& name, const TrackerTable& table,
                         std::optional<std::int64_t> step);
  /// Called once, by end_training(): everything is written, or a warning says what is not.
  virtual void finish() {}
};

/// With what a named tracker is made.
struct TrackerSetup {
  std::string run_name;               ///< The project's name.
  std::filesystem::path logging_dir;  ///< Empty when none was given.
  TrackerConfig options;              ///< init_kwargs[name]
};

struct TrackerClass {
  /// Makes a tracker, never null; its start() has not been called. Throws ConfigError.
  std::function<std::shared_ptr<GeneralTracker>(const TrackerSetup&)> make;
  bool requires_logging_directory = false;
  bool main_process_only = true;
  /// Whether log_with = {"all"} means it too, with that setup; default: always.
  std::function<bool(const TrackerSetup&)> is_in_all = {};
};

/// Makes `log_with = {name}` mean a tracker of yours. Thread-safe; holds for the process. Throws
/// UsageError for an empty name, "all", and a name that is taken.
void register_tracker_class(const std::string& name, TrackerClass tracker_class);

/// The names that log_with takes in this build, ours first, then yours, without "all".
[[nodiscard]] std::vector<std::string> available_trackers();

namespace detail {
/// The class of that name. Throws ConfigError with the nearest name, or with the cure when this
/// build lacks it.
[[nodiscard]] TrackerClass tracker_class(const std::string& name);
}  // namespace detail

}  // namespace accelerate
