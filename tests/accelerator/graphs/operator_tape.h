// A graph of the CPU: notes the operators below autograd, with the tensors that they read and
// wrote, and calls them again. So a test without a GPU sees what a replay of kernels computes, and
// what it does not.
#pragma once

#include <memory>

#include "accelerate/accelerator/graphs/captured_graph.h"

namespace accelerate::testing {

struct OperatorTapeOptions {
  bool refuses_reads = false;  ///< Whether reading a value ends a capture, as on a GPU.
};

/// What a graph did, for tests.
struct OperatorTapeCounts {
  int warm_ups = 0;
  int captures = 0;  ///< Those that failed included.
  int replays = 0;
};

/// As on a GPU, capture() leaves every tensor that `work` wrote as it was. A replay first spoils the
/// memory that `work` took by itself, since on a GPU other tensors of the work have been there.
/// Random numbers are drawn anew in a replay. `counts` may be null.
[[nodiscard]] std::unique_ptr<detail::CapturedGraph> make_operator_tape(
    std::shared_ptr<OperatorTapeCounts> counts = nullptr, const OperatorTapeOptions& options = {});

}  // namespace accelerate::testing
