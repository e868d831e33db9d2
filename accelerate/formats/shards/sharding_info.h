// What the header of a safetensors file says of tensors of which it holds only parts, as PyTorch's
// distributed checkpoints (their Hugging Face storage) write it. The keys are in
// docs/formats/sharded.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/formats/safetensors/safetensors_layout.h"

namespace accelerate {

struct ShardingInfo {
  /// A tensor's name → one whole number a dimension.
  using ByName = std::map<std::string, std::vector<std::int64_t>>;

  ByName offsets;        ///< Where in the whole tensor that of this file begins.
  ByName global_shapes;  ///< Of the whole tensors, where they are known: PyTorch does not say.
};

/// The sharding information of a file; nullopt when it has none and so holds whole tensors. Trusts
/// nothing: throws CheckpointError, whose message is a clause without the file's name, for what is
/// no such JSON, a name or key twice, a number that is not a whole one from 0 to 2^63-1, more
/// dimensions than a tensor may have, a newer version.
[[nodiscard]] std::optional<ShardingInfo> sharding_info_of(const SafetensorsMetadata& metadata);

/// The metadata of a file with this information: PyTorch's three keys, and ours with the shapes.
[[nodiscard]] SafetensorsMetadata sharding_metadata(const ShardingInfo& info);

}  // namespace accelerate
