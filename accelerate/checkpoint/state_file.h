// States in files: <stem>.json for the tree, and <stem>.safetensors for its tensors, if any.
// docs/formats/state.md has every key.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "accelerate/base/file_system.h"
#include "accelerate/checkpoint/planned_files.h"
#include "accelerate/checkpoint/sharded_files.h"
#include "accelerate/checkpoint/state_shards.h"
#include "accelerate/tensor/state_dict.h"

namespace accelerate {

/// Plans the files of `state`; their names begin with `stem`. Throws CheckpointError for a tensor
/// that is undefined, not strided, without data, or of a dtype that safetensors lacks. Also throws
/// it for a key that begins with '$', a text that is not UTF-8, nesting deeper than 64 levels, and
/// JSON longer than 256 MiB: read_state_file would refuse these. Tensors are not copied.
[[nodiscard]] std::vector<PlannedFile> plan_state(const std::string& stem, const StateDict& state);

/// Reads a state; its tensors are on the CPU, in new memory, or in files where an optimizer keeps
/// its state on disk. They lie in `tensor_files`, whole or
/// in shards (see tensor_files()); by default in <stem>.safetensors. Of a tensor that has a part in
/// `shards`, and the shape of the whole, only the part is read. Trusts nothing in the files. Throws
/// CheckpointError.
[[nodiscard]] StateDict read_state_file(FileSystem& files, const std::filesystem::path& folder,
                                        const std::string& stem);
[[nodiscard]] StateDict read_state_file(FileSystem& files, const std::filesystem::path& folder,
                                        const std::string& stem,
                                        const std::vector<std::filesystem::path>& tensor_files,
                                        const StateShards& shards = {});

/// Loads one tensor of a state, as read_state_file does: the part that `shards` has of the tensor at
/// `place` ("state.fc.weight.exp_avg"), or the whole. `outline`: its name in `stored`, and its
/// shape. Throws CheckpointError.
[[nodiscard]] at::Tensor load_part(const ShardedTensors& stored, const NamedTensor& outline,
                                   const std::string& place, const StateShards& shards);

}  // namespace accelerate
