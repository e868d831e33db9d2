// Sums up a model's tensors: in memory, and in the units that sharding gathers.
#pragma once

#include "cli/estimate/model_tensors.h"

namespace accelerate::cli {

struct ModelSizes {
  std::uint64_t bytes = 0;                ///< In fp32, with buffers.
  std::uint64_t largest_layer_bytes = 0;  ///< Of the largest layer, which cannot be divided.
  std::string largest_layer = {};
  std::uint64_t parameters = 0;
  std::uint64_t largest_unit = 0;  ///< Parameters of the largest repeated layer.
  std::uint64_t root = 0;          ///< Parameters outside repeated layers.
};

/// Sums up the tensors. A layer is a module of ModelTensors::undivided. Where the model does not
/// name such modules, a layer is an element of a numbered list ("encoder.layer.0"). Elsewhere a
/// layer is a module that has tensors itself. A unit of sharding is an element of a numbered list.
/// Source of the layers: get_max_layer_size of Accelerate.
[[nodiscard]] ModelSizes sizes_of(const ModelTensors& model);

}  // namespace accelerate::cli
