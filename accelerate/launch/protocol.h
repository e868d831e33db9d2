// The environment through which a launcher speaks to its ranks: the contract with Python Accelerate
// and with torchrun. docs/environment.md has the list; names and formats are upstream's.
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
  /// What the ranks know and nobody else: 32 hexadecimal digits; empty: they are told none.
  std::string token = {};
};

/// What every rank is told: precision, compiler, threads, and the sections of the paradigm chosen.
[[nodiscard]] Environment shared_environment(const LaunchSettings& settings);

/// Who rank `rank` is, where rank 0 listens, the token of the job, and how much freed memory it
/// keeps. Empty for a process that is alone.
[[nodiscard]] Environment rank_environment(const LaunchSettings& settings, int rank,
                                           const MeetingPoint& meeting);

/// The plan without a program. Throws as below.
[[nodiscard]] LaunchPlan make_plan(LaunchSettings& settings);

/// The whole plan: settings, program, a port and a fresh token. A port asked for that is taken is
/// replaced by a free one, which `settings.warnings` then says. Throws ConfigError, ProgramError,
/// LaunchError.
[[nodiscard]] LaunchPlan make_plan(LaunchSettings& settings,
                                   const std::vector<std::string>& program);

}  // namespace accelerate
