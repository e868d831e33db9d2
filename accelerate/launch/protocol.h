// The environment variables by which a launcher tells its ranks what they need. They work with
// Python Accelerate and torchrun too. docs/environment.md has the list; names and formats are
// upstream's.
#pragma once

#include <string>
#include <vector>

#include "accelerate/launch/plan.h"
#include "accelerate/launch/settings.h"

namespace accelerate {

/// Where the ranks meet.
struct MeetingPoint {
  std::string address = "127.0.0.1";
  int port = 0;
  /// A secret of the job's ranks, 32 hexadecimal digits; empty if they are told none.
  std::string token = {};
};

/// What is launched. Python's library has other defaults than Python's launcher, so a program that
/// may be Python's is told those of the launcher; a native program has them itself.
enum class ProgramKind { native, python };

/// Returns what every rank is told: precision, compiler, threads, and the sections of the chosen
/// paradigm. A value that nobody asked for is left out, so that it overrules no file of the
/// program; defaults that Python programs need never replace what the user's environment has.
[[nodiscard]] Environment shared_environment(const LaunchOptions& settings, ProgramKind kind);

/// Returns what rank `rank` is told: who it is, where rank 0 listens, the token of the job, and how
/// much freed memory it keeps. Empty for a process that is alone.
[[nodiscard]] Environment rank_environment(const LaunchOptions& settings, int rank,
                                           const MeetingPoint& meeting);

/// Makes the plan without a program. Its warnings are those of `settings`, and a line where a flag
/// or the file overrules a variable of the user's environment. Throws ConfigError and LaunchError.
[[nodiscard]] LaunchPlan make_plan(const LaunchOptions& settings, ProgramKind kind);

/// Makes the whole plan: settings, program, a port and a fresh token. If the requested port is
/// taken, a free one replaces it, and a warning says so. Throws ConfigError, ProgramError and
/// LaunchError.
[[nodiscard]] LaunchPlan make_plan(const LaunchOptions& settings,
                                   const std::vector<std::string>& program);

}  // namespace accelerate
