// Plays of a few ranks in which something goes wrong: each rank is a process forked from one that
// never uses shared memory or computes itself, which watches them from outside, strikes, and counts
// the dead.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "accelerate/comm/communicator.h"
#include "accelerate/launch/config/rendezvous_options.h"

namespace accelerate::testing {

inline constexpr int kMostRanks = 4;

/// What the ranks of a scenario and the process that watches them all see.
struct Stage {
  std::array<std::atomic<int>, kMostRanks> steps{};  ///< That each rank has made.
  std::array<std::atomic<bool>, kMostRanks> ended{};
  std::atomic<bool> released{false};

  /// A rank pauses until the watcher lets it go on.
  void wait_for_release() const;
  /// The watcher's; each gives up after 20 s and returns false.
  [[nodiscard]] bool wait_for_step(int rank, int step) const;
  [[nodiscard]] bool wait_for_end_of_all_but(int rank, int ranks) const;
};

struct Scenario {
  int ranks = 3;
  std::chrono::milliseconds timeout{60'000};  ///< Of every collective.
  /// How a rank meets the others, if not by rendezvous().
  std::function<std::shared_ptr<Communicator>(const RendezvousOptions&)> meet = {};
  /// What a rank does once it has met the others. How it ends is its status.
  std::function<void(std::shared_ptr<Communicator>, Stage&)> body;
  /// What the watcher does meanwhile.
  std::function<void(Stage&, const std::vector<pid_t>&)> outside = {};
};

/// How a rank ended: an exit code of its own or one of these, or 128 + signal.
inline constexpr int kFine = 0, kCommError = 3, kUsageError = 4, kOtherError = 5, kHung = 6;

struct Ended {
  int status = kHung;
  pid_t pid = 0;
  std::string text;  ///< Of the exception that ended it.
};

/// Plays `scenario`. Ranks that go on for 30 s after the watcher is through are killed.
[[nodiscard]] std::vector<Ended> play(const Scenario& scenario);

/// Names of ours in /dev/shm and among the abstract sockets that do not go away.
[[nodiscard]] std::vector<std::string> leftovers();

/// Findings of a RANK_MAIN that plays scenarios: printed; the exit code says whether there are any.
class Findings {
 public:
  void expect(bool holds, const std::string& what);
  void expect_ended(const Ended& ended, int status, const std::vector<std::string>& parts,
                    const std::string& where);
  void expect_nothing_left();
  [[nodiscard]] int exit_code() const { return found_ == 0 ? 0 : 1; }

 private:
  int found_ = 0;
};

/// EXPECTs that RANK_MAIN(name), run alone, finds nothing.
void expect_no_findings(const std::string& name, const std::string& argument = "",
                        std::chrono::milliseconds limit = std::chrono::seconds(300));

/// The number in an environment variable, `otherwise` without it.
[[nodiscard]] unsigned number_in(const char* variable, unsigned otherwise);

/// The argument of expect_no_findings, in the RANK_MAIN.
[[nodiscard]] std::string argument();

}  // namespace accelerate::testing
