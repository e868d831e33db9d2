// A file system in memory that fails, or loses power, at a chosen step, and can tell every state
// its disk may then be in.
#pragma once

#include <atomic>
#include <cerrno>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/crash_file_system.h"

namespace accelerate::testing {

/// Thrown at the step at which the power goes; nothing works afterwards.
struct PowerCut : std::exception {
  [[nodiscard]] const char* what() const noexcept override { return "power cut"; }
};

/// What goes wrong. Steps are calls that change something, sync or close, counted from 0.
struct FaultPlan {
  std::optional<std::size_t> cut_power_at = {};  ///< Before this step.
  std::optional<std::size_t> fail_at = {};       ///< This step throws FileError(error).
  std::size_t failures = 1;                      ///< So many steps in a row do.
  int error = ENOSPC;
  bool file_sync_works = true;               ///< Else it returns and does nothing.
  bool directory_sync_works = true;          ///< Else it returns and does nothing.
  bool folders_are_steps = false;            ///< Whether making folders counts, and so can fail.
};

class FaultyFileSystem final : public CrashFileSystem {
 public:
  using Contents = std::map<std::string, std::string>;  // Of all files, by path.

  explicit FaultyFileSystem(FaultPlan plan = {}) : plan_(std::move(plan)) {}
  FaultyFileSystem(const DiskState& disk, FaultPlan plan)
      : CrashFileSystem(disk), plan_(std::move(plan)) {}

  /// Steps so far.
  [[nodiscard]] std::size_t steps() const { return step_; }
  /// What a reader sees now.
  [[nodiscard]] Contents visible() const { return now().files; }
  /// Every state in which the disk may be found if the power goes (or went) now.
  [[nodiscard]] std::vector<Contents> after_power_cut() const {
    std::vector<Contents> states;
    CrashFileSystem::after_power_cut(
        [&](const DiskState& state) { states.push_back(state.files); });
    return states;
  }

 private:
  bool before(std::string_view action, const Path& path) override {
    if (action == "create the directory" && !plan_.folders_are_steps) return true;
    if (plan_.cut_power_at && step_ >= *plan_.cut_power_at) throw PowerCut();
    const std::size_t now = step_++;
    if (plan_.fail_at && now >= *plan_.fail_at && now - *plan_.fail_at < plan_.failures) {
      throw FileError(action, path, plan_.error);
    }
    const bool folder = status(path).kind == FileKind::directory;
    return folder ? plan_.directory_sync_works : plan_.file_sync_works;
  }

  FaultPlan plan_;
  std::atomic<std::size_t> step_ = 0;
};

}  // namespace accelerate::testing
