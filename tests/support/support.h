// Fixtures that need no LibTorch: temporary folders, running a program with a time limit.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace accelerate::testing {

/// A fresh folder under the system's temporary directory, removed with everything in it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Writes `text` into `name` below the folder and returns the full path.
  std::filesystem::path write(const std::string& name, const std::string& text) const;

 private:
  std::filesystem::path path_;
};

/// Sets (or, with nullptr, unsets) an environment variable while alive.
class ScopedEnv {
 public:
  ScopedEnv(std::string name, const char* value);
  ~ScopedEnv();
  ScopedEnv(const ScopedEnv&) = delete;
  ScopedEnv& operator=(const ScopedEnv&) = delete;

 private:
  std::string name_;
  std::string before_;
  bool was_set_ = false;
};

struct RunOptions {
  std::map<std::string, std::string> env;     ///< Added to (or, if empty, removed from) ours.
  std::chrono::milliseconds timeout{30'000};  ///< The whole process group is killed after it.
  std::filesystem::path working_directory;    ///< Ours when empty.
};

struct RunResult {
  int exit_code = -1;  ///< 128 + signal when killed by one.
  bool timed_out = false;
  std::string out;  ///< Standard output.
  std::string err;  ///< Standard error.
};

/// Runs argv[0] (looked up in PATH) in a process group of its own and waits for it.
RunResult run_program(const std::vector<std::string>& argv, const RunOptions& options = {});

/// Path of the built `accelerate` command.
std::string accelerate_program();

}  // namespace accelerate::testing
