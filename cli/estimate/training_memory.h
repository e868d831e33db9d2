// The formulas of docs/costs.md: what a training takes on each process, without activations.
#pragma once

#include <cstdint>

#include "accelerate/launch/config/enums.h"
#include "cli/estimate/model_tensors.h"

namespace accelerate::cli {

// Sums up a model's tensors: in memory, and in the units that sharding gathers.

struct ModelSizes {
  std::uint64_t bytes = 0;                ///< In fp32, with buffers.
  std::uint64_t largest_layer_bytes = 0;  ///< Of the largest layer, which cannot be divided.
  std::string largest_layer = {};
  std::uint64_t parameters = 0;
  std::uint64_t largest_unit = 0;  ///< Parameters of the largest repeated layer.
  std::uint64_t root = 0;          ///< Parameters outside repeated layers.
  /// Repeated layers with a norm, and the most numbers that one of their norms has for a token. 0
  /// where layers have no norms, as in networks for images.
  std::uint64_t layers = 0, width = 0;
};

/// Sums up the tensors. A layer is a module of ModelTensors::undivided. Where the model does not
/// name such modules, a layer is an element of a numbered list ("encoder.layer.0"). Elsewhere a
/// layer is a module that has tensors itself. A unit of sharding is an element of a numbered list.
/// Source of the layers: get_max_layer_size of Accelerate.
[[nodiscard]] ModelSizes sizes_of(const ModelTensors& model);

/// How the state of a training is divided among its processes.
enum class Division {
  replicated,     ///< DDP, NO_SHARD.
  full_shard,     ///< FULL_SHARD; units are gathered.
  shard_grad_op,  ///< SHARD_GRAD_OP; gathered once a step.
  shared_pages,   ///< Sharded on the CPUs of one machine.
  on_disk         ///< FULL_SHARD with everything offloaded to disk.
};

/// Returns the bytes that one process needs for parameters, gradients, Adam's moments and gathered
/// units. With shared pages it is the process's part of what all processes take together. Master
/// weights are fp32; `precision` is the precision of forwards.
[[nodiscard]] double training_bytes(const ModelSizes& sizes, Division division, int processes,
                                    MixedPrecision precision);

/// Returns the bytes that all processes together have on disk if the training is offloaded there.
[[nodiscard]] double disk_bytes(const ModelSizes& sizes, MixedPrecision precision);

/// Returns the original's estimate for one process and Adam: four times the model in fp32, twice
/// under float16, and 0 for dtypes that are not trained in.
[[nodiscard]] std::uint64_t upstream_training_bytes(std::uint64_t bytes, const std::string& dtype);

}  // namespace accelerate::cli
