#include "accelerate/watch/trackers/tracker_options.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"

namespace accelerate::detail {

std::optional<ConfigValue> TrackerOptions::take(const std::string& name) {
  known_.push_back(name);
  const auto found = std::ranges::find(options_, name, &std::pair<std::string, ConfigValue>::first);
  if (found == options_.end()) return std::nullopt;
  ConfigValue value = std::move(found->second);
  options_.erase(found);
  if (std::holds_alternative<std::monostate>(value.data())) return std::nullopt;
  return value;
}

void TrackerOptions::refuse(const std::string& name, const std::string& allowed) const {
  throw ConfigError("init_kwargs: '" + name + "' of the tracker '" + tracker_ + "' must be " +
                    allowed);
}

std::optional<std::string> TrackerOptions::text(const std::string& name) {
  const auto value = take(name);
  if (!value) return std::nullopt;
  if (const auto* text = std::get_if<std::string>(&value->data())) return *text;
  refuse(name, "a text");
}

std::optional<bool> TrackerOptions::flag(const std::string& name) {
  const auto value = take(name);
  if (!value) return std::nullopt;
  if (const auto* flag = std::get_if<bool>(&value->data())) return *flag;
  refuse(name, "true or false");
}

std::optional<std::int64_t> TrackerOptions::integer(const std::string& name) {
  const auto value = take(name);
  if (!value) return std::nullopt;
  if (const auto* number = std::get_if<std::int64_t>(&value->data())) return *number;
  refuse(name, "an integer");
}

std::optional<std::chrono::milliseconds> TrackerOptions::seconds(const std::string& name) {
  constexpr double kMost = 86'400;
  const auto value = take(name);
  if (!value) return std::nullopt;
  double number = -1;
  if (const auto* whole = std::get_if<std::int64_t>(&value->data())) {
    number = static_cast<double>(*whole);
  } else if (const auto* real = std::get_if<double>(&value->data())) {
    number = *real;
  }
  if (!(number > 0) || number > kMost) refuse(name, "a number of seconds above 0, at most a day");
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(number * 1000)));
}

std::optional<ConfigMap> TrackerOptions::map(const std::string& name) {
  const auto value = take(name);
  if (!value) return std::nullopt;
  if (const auto* entries = std::get_if<ConfigMap>(&value->data())) return *entries;
  refuse(name, "settings by name");
}

void TrackerOptions::finish() const {
  if (options_.empty()) return;
  const std::string& name = options_.front().first;
  throw ConfigError("init_kwargs: the tracker '" + tracker_ + "' has no option '" + name +
                    "'; allowed are " + join(known_, ", ") + "." + did_you_mean(name, known_));
}

std::filesystem::path run_folder(const std::string& tracker,
                                 const std::filesystem::path& logging_dir,
                                 const std::string& run_name) {
  if (logging_dir.empty()) {
    throw ConfigError("the tracker '" + tracker +
                      "' writes files and needs a folder for them: set project_dir, or "
                      "project_config.logging_dir, of the Accelerator's options");
  }
  const std::filesystem::path name(run_name);
  const bool leads_out = name.is_absolute() || std::ranges::find(name, "..") != name.end() ||
                         run_name.find('\0') != std::string::npos;
  if (run_name.empty() || leads_out) {
    throw ConfigError("init_trackers: the project name '" + run_name + "' " +
                      (leads_out ? "leads out of the logging folder" : "is empty") +
                      "; allowed is a name, or a path below that folder without '..'");
  }
  return logging_dir / name;
}

void make_run_folder(const std::string& tracker, FileSystem& files,
                     const std::filesystem::path& folder) {
  try {
    files.create_directories(folder);
  } catch (const FileError& error) {
    if (error.error_number() == ENOSPC || error.error_number() == EDQUOT) return;
    throw_with_context<ConfigError>("the tracker '" + tracker +
                                    "' cannot write to its folder; choose another project_dir, or "
                                    "project_config.logging_dir");
  }
}

void check_run_is_under_way(bool is_under_way, const std::string& tracker) {
  if (is_under_way) return;
  throw UsageError("the tracker '" + tracker +
                   "' was given values while no run is under way; a run lasts from "
                   "init_trackers() to end_training()");
}

std::string file_name_part(std::string_view text) {
  constexpr std::size_t kMost = 180;
  std::string part(text.substr(0, kMost));
  for (char& c : part) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (byte < 0x80 && std::isalnum(byte) != 0) || c == '.' || c == '-' || c == '_';
    if (!plain) c = '_';
  }
  return part.empty() || part.find_first_not_of('.') == std::string::npos ? part + "_" : part;
}

}  // namespace accelerate::detail
