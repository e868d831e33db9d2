// How a launch went, in words for a terminal.
#pragma once

#include <string>
#include <vector>

#include "accelerate/launch/supervisor.h"

namespace accelerate {

/// The name of a signal: "SIGSEGV", or "signal 42" for one without a name.
[[nodiscard]] std::string signal_name(int signal);

/// "rank 1 (pid 4242) was killed by SIGSEGV (Segmentation fault) after 0.2 s".
[[nodiscard]] std::string describe_rank(const RankResult& rank);

/// Names, in a sentence, what often ends a rank like this; "" if there is nothing to name.
[[nodiscard]] std::string likely_cause(const RankResult& rank);

/// Says what became of the ranks other than the first failure, in lines that end with a line end.
/// Empty when there is nothing to tell.
[[nodiscard]] std::string describe_others(const LaunchResult& result);

}  // namespace accelerate
