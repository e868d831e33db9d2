// States in files: <stem>.json for the tree, and <stem>.safetensors for the tensors in it, when
// there are any. docs/formats/state.md has every key.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "accelerate/base/file_system.h"
#include "accelerate/checkpoint/planned_files.h"
#include "accelerate/checkpoint/state_shards.h"
#include "accelerate/tensor/state_dict.h"

namespace accelerate {

/// The files of `state`, by names that begin with `stem`. Throws CheckpointError: a tensor is
/// undefined, not strided or without data, or has a dtype that safetensors lacks, a key begins with
/// '$', a text is not UTF-8, lists and dictionaries are nested deeper than 64 levels, or the JSON
/// is longer than 256 MiB: what read_state_file would refuse is not saved. Cost: tensors are not
/// copied.
[[nodiscard]] std::vector<PlannedFile> plan_state(const std::string& stem, const StateDict& state);

/// Reads it back; tensors are on the CPU, in memory of their own. They lie in `tensor_files`, whole
/// or in shards (see tensor_files()), which by default is <stem>.safetensors. Of tensors that
/// `shards` have parts of, and that are shaped as the whole, only the part is read. Trusts nothing.
/// Throws CheckpointError.
[[nodiscard]] StateDict read_state_file(FileSystem& files, const std::filesystem::path& folder,
                                        const std::string& stem);
[[nodiscard]] StateDict read_state_file(FileSystem& files, const std::filesystem::path& folder,
                                        const std::string& stem,
                                        const std::vector<std::filesystem::path>& tensor_files,
                                        const StateShards& shards = {});

/// Whether `folder` has a state of that name.
[[nodiscard]] bool has_state_file(FileSystem& files, const std::filesystem::path& folder,
                                  const std::string& stem);

}  // namespace accelerate
