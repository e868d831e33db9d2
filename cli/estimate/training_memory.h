// The formulas of docs/costs.md: what a training takes on each process, without activations.
#pragma once

#include <cstdint>

#include "accelerate/config/enums.h"
#include "cli/estimate/model_sizes.h"

namespace accelerate::cli {

/// How the state of a training lies on its processes.
enum class Division {
  replicated,     ///< DDP, NO_SHARD
  full_shard,     ///< FULL_SHARD, units gathered
  shard_grad_op,  ///< SHARD_GRAD_OP, gathered once a step
  shared_pages    ///< Sharded on the CPUs of one machine
};

/// Bytes of parameters, gradients and Adam's moments, and of what is gathered, of one process; with
/// shared pages its part of what all take together. Masters are fp32; `precision` is of forwards.
[[nodiscard]] double training_bytes(const ModelSizes& sizes, Division division, int processes,
                                    MixedPrecision precision);

/// The original's estimate for one process and Adam: four times the model in fp32, twice under
/// float16; 0 for what is not trained in.
[[nodiscard]] std::uint64_t upstream_training_bytes(std::uint64_t bytes, const std::string& dtype);

}  // namespace accelerate::cli
