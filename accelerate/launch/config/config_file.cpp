// Finds, reads and writes configuration files.
#include <pwd.h>
#include <unistd.h>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/formats/documents/document.h"
#include "accelerate/launch/config/cluster_config.h"

namespace accelerate {
namespace {

std::filesystem::path home_directory() {
  if (const auto home = env("HOME")) return *home;
  const passwd* user = getpwuid(getuid());
  if (user == nullptr || user->pw_dir == nullptr) {
    throw ConfigError(
        "the home directory is unknown: set HOME, or HF_HOME to the folder that shall "
        "hold accelerate/default_config.yaml");
  }
  return user->pw_dir;
}

// Expands "~" and "~/x" as a shell does.
std::filesystem::path expand_user(const std::string& path) {
  if (path == "~") return home_directory();
  if (path.starts_with("~/")) return home_directory() / path.substr(2);
  return path;
}

std::filesystem::path cache_home() {
  if (const auto home = env("HF_HOME")) return expand_user(*home);
  return expand_user(env("XDG_CACHE_HOME").value_or("~/.cache")) / "huggingface";
}

[[noreturn]] void fail_missing(const std::filesystem::path& file) {
  throw ConfigError(
      "the configuration file '" + file.string() +
      "' does not exist. Pass an existing file with --config_file, or write the default "
      "one with `accelerate config` and leave out --config_file");
}

}  // namespace

std::filesystem::path named_config_file(const std::string& flag) {
  if (!flag.empty()) return flag;
  throw ConfigError(
      "--config_file is ''; it must name a file. Is a variable of the shell unset? Leave out "
      "--config_file for the default file, " +
      default_config_file().string());
}

std::filesystem::path default_config_file() {
  return cache_home() / "accelerate" / "default_config.yaml";
}

ClusterConfig load_cluster_config(const std::filesystem::path& file,
                                  std::vector<RetiredKey>* retired) {
  std::string text;
  try {
    if (real_file_system().status(file).kind == FileKind::none) fail_missing(file);
    text = read_file(real_file_system(), file, DocumentLimits{}.max_bytes);
  } catch (const FileError&) {
    throw_with_context<ConfigError>("the configuration file '" + file.string() +
                                    "' cannot be read");
  }
  return parse_cluster_config(text, file.string(), retired);
}

std::filesystem::path config_target(const std::filesystem::path& file) {
  constexpr int kMostLinks = 40;  // As many as the system follows.
  std::error_code error;
  std::filesystem::path target = std::filesystem::absolute(file, error);
  for (int links = 0; std::filesystem::is_symlink(target, error); ++links) {
    if (links == kMostLinks)
      throw ConfigError("the configuration file '" + file.string() +
                        "' is a link that leads to itself: name another by --config_file");
    target = target.parent_path() / std::filesystem::read_symlink(target, error);
  }
  return target;
}

void save_cluster_config(const ClusterConfig& config, const std::filesystem::path& file) {
  save_config_text(file.extension() == ".json" ? to_json(config) : to_yaml(config), file);
}

void save_config_text(const std::string& text, const std::filesystem::path& file) {
  try {
    const auto target = config_target(file);
    real_file_system().create_directories(target.parent_path());
    write_file_atomically(real_file_system(), target, text);
  } catch (const FileError&) {
    throw_with_context<ConfigError>("the configuration file '" + file.string() +
                                    "' cannot be written");
  }
}

}  // namespace accelerate
