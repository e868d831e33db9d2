// Reads the options of a tracker, init_kwargs[name], strictly: misspelt options are errors.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/base/file_system.h"
#include "accelerate/watch/trackers/values.h"

namespace accelerate::detail {

/// Each getter takes an option out; finish() refuses what remains. All throw ConfigError.
class TrackerOptions {
 public:
  TrackerOptions(std::string tracker, ConfigMap options)
      : tracker_(std::move(tracker)), options_(std::move(options)) {}

  [[nodiscard]] std::optional<std::string> text(const std::string& name);
  [[nodiscard]] std::optional<bool> flag(const std::string& name);
  [[nodiscard]] std::optional<std::int64_t> integer(const std::string& name);
  /// Returns a number above 0, possibly with a fraction.
  [[nodiscard]] std::optional<std::chrono::milliseconds> seconds(const std::string& name);
  [[nodiscard]] std::optional<ConfigMap> map(const std::string& name);
  /// Throws for an option that no getter asked for, naming the nearest known option.
  void finish() const;

 private:
  [[nodiscard]] std::optional<ConfigValue> take(const std::string& name);
  [[noreturn]] void refuse(const std::string& name, const std::string& allowed) const;

  std::string tracker_;
  ConfigMap options_;
  std::vector<std::string> known_;
};

/// Returns `logging_dir` / `run_name`. Throws ConfigError if there is no logging_dir, or the run
/// name is empty or leads out of it.
[[nodiscard]] std::filesystem::path run_folder(const std::string& tracker,
                                               const std::filesystem::path& logging_dir,
                                               const std::string& run_name);

/// Makes `folder`. Throws ConfigError if that is refused. A full disk is not an error: it may have
/// room later, and the files make their folder themselves.
void make_run_folder(const std::string& tracker, FileSystem& files,
                     const std::filesystem::path& folder);

/// Throws UsageError unless a run of `tracker` is under way, as it is from start() to finish().
void check_run_is_under_way(bool is_under_way, const std::string& tracker);

/// Returns `text` as part of a file name: characters other than letters, digits, dots, dashes and
/// underscores become '_', and at most 180 bytes are kept.
[[nodiscard]] std::string file_name_part(std::string_view text);

}  // namespace accelerate::detail
