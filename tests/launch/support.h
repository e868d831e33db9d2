// A vocabulary for tests of launching: probes, and proofs that nothing is left behind.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "accelerate/launch/plan.h"

namespace accelerate::testing {

/// Path of the probe (tests/launch/probe/main.cpp).
std::string probe_program();

/// A word no other test's processes carry.
std::string unique_tag();

/// Processes, other than zombies, whose command line holds `tag`; with `state`, those in that state
/// of /proc/PID/stat alone.
int processes_tagged(const std::string& tag, char state = '\0');

/// Waits until `done` is true; false when `limit` passes first.
bool eventually(const std::function<bool()>& done,
                std::chrono::milliseconds limit = std::chrono::seconds(5));

/// A plan of `ranks` probes with the given words.
LaunchPlan probe_plan(int ranks, std::vector<std::string> words);

/// A program that runs beside the test; killed with its process group at the end of the scope.
class Background {
 public:
  /// Standard output goes to `output`, standard error to `output` + ".err".
  Background(std::vector<std::string> argv, const std::string& output);
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  void signal(int number) const;
  [[nodiscard]] int pid() const { return pid_; }
  /// Its exit code, 128 + signal when one killed it; -1 when it still runs after `limit`.
  int wait(std::chrono::milliseconds limit);

 private:
  int pid_ = -1;
  bool ended_ = false;
};

/// Number of entries in a folder.
int entries(const std::string& folder);

/// The text of a file; empty when there is none, or when its process in /proc has ended.
std::string text_of(const std::string& path);

}  // namespace accelerate::testing
