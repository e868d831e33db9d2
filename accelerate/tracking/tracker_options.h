// Reads the options of a tracker, init_kwargs[name], strictly: what is misspelt is not ignored.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/base/file_system.h"
#include "accelerate/tracking/values.h"

namespace accelerate::detail {

/// Each getter takes an option out; finish() refuses what is left. All throw ConfigError.
class TrackerOptions {
 public:
  TrackerOptions(std::string tracker, TrackerConfig options)
      : tracker_(std::move(tracker)), options_(std::move(options)) {}

  [[nodiscard]] std::optional<std::string> text(const std::string& name);
  [[nodiscard]] std::optional<bool> flag(const std::string& name);
  [[nodiscard]] std::optional<std::int64_t> integer(const std::string& name);
  /// Above 0, fractions allowed.
  [[nodiscard]] std::optional<std::chrono::milliseconds> seconds(const std::string& name);
  [[nodiscard]] std::optional<ConfigMap> map(const std::string& name);
  /// Throws for an option that no getter asked for, naming the nearest one that was.
  void finish() const;

 private:
  [[nodiscard]] std::optional<ConfigValue> take(const std::string& name);
  [[noreturn]] void refuse(const std::string& name, const std::string& allowed) const;

  std::string tracker_;
  TrackerConfig options_;
  std::vector<std::string> known_;
};

/// `logging_dir` / `run_name`. Throws ConfigError: no logging_dir, an empty run name, one that
/// leads out of logging_dir.
[[nodiscard]] std::filesystem::path run_folder(const std::string& tracker,
                                               const std::filesystem::path& logging_dir,
                                               const std::string& run_name);

/// Makes `folder`. Throws ConfigError when that is refused; a full disk is not: it may have room
/// later, and the files make their folder themselves.
void make_run_folder(const std::string& tracker, FileSystem& files,
                     const std::filesystem::path& folder);

/// `text` as part of a file name: what is no letter, digit, dot, dash or underscore becomes '_',
/// and at most 180 bytes are kept.
[[nodiscard]] std::string file_name_part(std::string_view text);

}  // namespace accelerate::detail
