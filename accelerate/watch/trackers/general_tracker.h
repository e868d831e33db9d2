// The interface of experiment trackers, for ours and for yours. Names and their meaning follow
// `accelerate.tracking.GeneralTracker`.
//
//   class Console final : public GeneralTracker {
//     std::string name() const override { return "console"; }
//     void log(const TrackerValues& values, std::optional<std::int64_t> step) override { … }
//   };
//   Accelerator accelerator({.log_with = {"tensorboard", std::make_shared<Console>()}});
//
// The training thread makes all calls. A tracker that waits for a disk or a network does so on
// another thread, so that training never waits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "accelerate/watch/trackers/values.h"

namespace accelerate {

class GeneralTracker {
 public:
  virtual ~GeneralTracker() = default;

  /// The name by which get_tracker() finds it, unless log_with named a registered class: then that
  /// name.
  [[nodiscard]] virtual std::string name() const = 0;
  /// Whether it writes below ProjectConfiguration::logging_dir, which must then be set.
  [[nodiscard]] virtual bool requires_logging_directory() const { return false; }
  /// Whether only rank 0 tracks. If false, every rank does, each with a separate object.
  [[nodiscard]] virtual bool main_process_only() const { return true; }

  /// Called once, by init_trackers(), before anything else.
  virtual void start() {}
  /// Stores the settings of the run, by which people compare runs.
  virtual void store_init_configuration(const ConfigMap& config) { (void)config; }
  /// Logs the values of a step. Must not wait.
  virtual void log(const TrackerValues& values, std::optional<std::int64_t> step) = 0;
  /// Log images or a table. The default warns once that the tracker does not keep them.
  virtual void log_images(const TrackerImages& images, std::optional<std::int64_t> step);
  virtual void log_table(const std::string& name, const TrackerTable& table,
                         std::optional<std::int64_t> step);
  /// Called once, by end_training(). Writes everything, or warns about what it could not write.
  virtual void finish() {}
};

/// The arguments that a tracker is made with.
struct TrackerSetup {
  std::string run_name;               ///< The project's name.
  std::filesystem::path logging_dir;  ///< Empty if none was given.
  ConfigMap options;                  ///< init_kwargs[name]
};

struct TrackerClass {
  /// Makes a tracker, never null; start() is called later. Throws ConfigError.
  std::function<std::shared_ptr<GeneralTracker>(const TrackerSetup&)> make;
  bool requires_logging_directory = false;
  bool main_process_only = true;
  /// Whether log_with = {"all"} includes it, given the setup; default: always.
  std::function<bool(const TrackerSetup&)> is_in_all = {};
};

}  // namespace accelerate
