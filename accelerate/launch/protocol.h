// The environment variables by which a launcher tells its ranks what they need. They work with
// Python Accelerate and torchrun too. docs/environment.md has the list; names and formats are
// upstream's.
#pragma once

#include <string>
#include <vector>

#include "accelerate/launch/plan.h"
#include "accelerate/launch/settings.h"

namespace accelerate {

/// Where the ranks meet, and which ones those of this machine are.
struct MeetingPoint {
  std::string address = "127.0.0.1";
  int port = 0;
  /// A secret of the job's ranks, 32 hexadecimal digits; empty if they are told none.
  std::string token = {};
  /// The name of this launch, the same on all machines and in all rounds; empty: the launcher's own.
  std::string launch = {};
  int machine = 0;  ///< Number of this machine.
  int machines = 1;
  int first_rank = 0;       ///< Of this machine.
  int ranks_of_all = 0;     ///< On all machines; 0 if on this machine alone.
  int first_role_rank = 0;  ///< Among the ranks of the same role.
  int ranks_of_role = 0;
  bool is_hosted = false;  ///< Whether a launcher holds the store of the ranks, else rank 0 does.
  int restarts = 0;        ///< How often all ranks have been started before.
  int max_restarts = 0;    ///< How often they may be because one failed.
};

/// What is launched. Python's library has other defaults than Python's launcher, so a program that
/// may be Python's is told those of the launcher; a native program has them itself.
enum class ProgramKind { native, python };

/// Returns what every rank is told: precision, compiler, threads, and the sections of the chosen
/// paradigm. A value that nobody asked for is left out, so that it overrules no file of the
/// program; defaults that Python programs need never replace what the user's environment has.
[[nodiscard]] Environment shared_environment(const LaunchOptions& settings, ProgramKind kind);

/// Returns what rank `rank` of this machine is told: who it is, where rank 0 listens, the token of the job, and how
/// much freed memory it keeps. Empty for a process that is alone, unless it is a scheduler's task.
[[nodiscard]] Environment rank_environment(const LaunchOptions& settings, int rank,
                                           const MeetingPoint& meeting);

/// Returns the shared variables that must have one value on all machines: those that say
/// how the ranks train, and none that says what a machine has.
[[nodiscard]] Environment settings_of_all_machines(const LaunchOptions& settings);

/// Makes the plan without a program. Its warnings are those of `settings`, and a line where a flag
/// or the file overrules a variable of the user's environment. Throws ConfigError and LaunchError.
/// `meeting`: where machines have met; null on one machine, where a port is chosen and a token made,
/// and `restarts` says how often the ranks have been started before.
[[nodiscard]] LaunchPlan make_plan(const LaunchOptions& settings, ProgramKind kind,
                                   const MeetingPoint* meeting = nullptr, int restarts = 0);

/// Makes the whole plan: settings, program, meeting point. If the requested port is taken on one
/// machine, a free one replaces it, and a warning says so. Throws ConfigError, ProgramError and
/// LaunchError.
[[nodiscard]] LaunchPlan make_plan(const LaunchOptions& settings,
                                   const std::vector<std::string>& program,
                                   const MeetingPoint* meeting = nullptr, int restarts = 0);

}  // namespace accelerate
