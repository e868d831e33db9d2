// What to start, as pure data: one program, an environment for every rank. `make_plan` derives it
// from flags and configuration; `launch` (supervisor.h) runs it.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "accelerate/base/machine/cpu_affinity.h"
#include "accelerate/launch/output/output_plan.h"

namespace accelerate {

using Environment = std::map<std::string, std::string>;

struct LaunchPlan {
  /// argv[0] is the path that is executed; it is not searched for in PATH again.
  std::vector<std::string> argv;
  /// Instead of a program: what each rank, a copy of the calling process, runs. Takes the local rank
  /// and returns the exit code. The calling process may have no other threads then.
  std::function<int(int rank)> body = {};
  /// Set for every rank, on top of the environment of the calling process.
  Environment shared;
  /// One entry a rank, in the order of local ranks, on top of `shared`.
  std::vector<Environment> ranks;
  int first_rank = 0;  ///< The number, among the ranks of all machines, of the first one here.
  /// Cores that each rank is bound to from its first instruction on; empty if none is bound.
  std::vector<CoreShare> cores = {};
  OutputPlan output = {};                  ///< Where ranks write.
  int attempt = 0;                         ///< How often the ranks were started again.
  std::vector<std::string> warnings = {};  ///< For the user; each is a sentence or a block.
  /// Time that ranks get between SIGTERM and SIGKILL when the group is ended.
  std::chrono::milliseconds grace_period{30'000};
};

}  // namespace accelerate
