// The table of contents of a checkpoint of torch.distributed.checkpoint: the file .metadata, a
// pickle that is read as data. docs/formats/distcp.md has the format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "accelerate/formats/safetensors/tensor_spec.h"
#include "accelerate/formats/shards/tensor_tiles.h"

namespace accelerate {

/// Where an archive of torch.save lies in a file of the checkpoint.
struct DistcpPlace {
  std::string file;  ///< A plain name, never a path.
  std::uint64_t offset_bytes = 0, size_bytes = 0;
};

struct DistcpPart {
  TensorTile tile;
  DistcpPlace place;
};

/// A tensor; `shape` is the shape of the whole.
struct DistcpTensor : TensorSpec {
  std::vector<DistcpPart> parts = {};  ///< Those with elements. A tensor without elements has none.
};

struct DistcpMetadata {
  std::vector<DistcpTensor> tensors;
  std::map<std::string, DistcpPlace> values;  ///< Everything else, by name.
  /// The keys that lead to a value in the state that was saved, by its name in the checkpoint:
  /// "optimizer.state.fc.weight.step" to "optimizer", "state", "fc.weight", "step". Numbers become
  /// texts. Names that were not saved in a nested state are missing.
  std::map<std::string, std::vector<std::string>> paths;
};

/// Reads the bytes of a .metadata. Executes nothing, and trusts nothing. Throws CheckpointError,
/// whose message is a clause, for:
/// - a pickle that is damaged or holds something other than a table of contents,
/// - a part whose place is missing, negative or beyond 64 bits, or in no plain file name,
/// - data that an extension has compressed or encrypted.
[[nodiscard]] DistcpMetadata read_distcp_metadata(std::span<const std::byte> bytes);

}  // namespace accelerate
