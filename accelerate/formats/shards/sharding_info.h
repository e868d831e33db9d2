// The part of a safetensors header that says which parts of tensors the file holds, as PyTorch's
// distributed checkpoints write it (their Hugging Face storage). docs/formats/sharded.md lists the
// keys.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/formats/safetensors/tensor_spec.h"

namespace accelerate {

struct ShardingInfo {
  /// From a tensor's name to one whole number a dimension.
  using ByName = std::map<std::string, std::vector<std::int64_t>>;

  ByName offsets;        ///< Where this file's part begins in the whole tensor.
  ByName global_shapes;  ///< Shapes of the whole tensors, if known; PyTorch does not write them.
};

/// Reads the sharding information of a file. Returns nullopt if it has none and so holds whole
/// tensors. Trusts nothing. Throws CheckpointError, whose message is a clause without the file's
/// name, for:
/// - invalid JSON, or a name or key that appears twice,
/// - a number that is not a whole number from 0 to 2^63-1,
/// - too many dimensions, or a newer version.
[[nodiscard]] std::optional<ShardingInfo> sharding_info_of(const SafetensorsMetadata& metadata);

/// Returns the metadata for a file: PyTorch's three keys, and our key with the shapes.
[[nodiscard]] SafetensorsMetadata sharding_metadata(const ShardingInfo& info);

}  // namespace accelerate
