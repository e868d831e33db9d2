// How a launch went, in words for a terminal.
#pragma once

#include <string>
#include <vector>

#include "accelerate/launch/supervisor.h"

namespace accelerate {

/// "SIGSEGV"; "signal 42" for one without a name.
[[nodiscard]] std::string signal_name(int signal);

/// "rank 1 (pid 4242) was killed by SIGSEGV (Segmentation fault) after 0.2 s".
[[nodiscard]] std::string describe_rank(const RankResult& rank);

/// The cause that a way of dying often has, as a sentence; "" when there is none to name.
[[nodiscard]] std::string likely_cause(const RankResult& rank);

/// "0, 2-5, 9" for {0, 2, 3, 4, 5, 9}.
[[nodiscard]] std::string ranges(const std::vector<int>& ranks);

/// What became of the ranks beside the first failure, a line each kind, each ended; empty when
/// there is nothing to tell.
[[nodiscard]] std::string describe_others(const LaunchResult& result);

}  // namespace accelerate
