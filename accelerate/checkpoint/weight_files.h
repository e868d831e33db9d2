// The weights of a model on disk, in one file or several, as Transformers and Accelerate lay them
// out: model.safetensors, or shards with model.safetensors.index.json; and, to be read only, files
// of torch.save.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "accelerate/base/file_system.h"
#include "accelerate/checkpoint/planned_files.h"
#include "accelerate/tensor/module_view.h"

namespace accelerate {

/// Writes `weights` into `folder`, made when it is missing: as model.safetensors, or, when they are
/// more than `max_shard_bytes`, as shards with an index, dealt out as huggingface_hub does. Files
/// of an earlier save that are not of this one are removed at the end. A reader finds the old
/// weights, the new ones, or, for the moment in which shards of one name are exchanged, none at all
/// (an index is missing), never a mixture. Throws CheckpointError, UsageError for a name twice.
void save_weights(const std::vector<NamedTensor>& weights, const std::filesystem::path& folder,
                  std::uint64_t max_shard_bytes, FileSystem& files = real_file_system());

/// The same of a file that was planned (see plan_whole for what it fetches).
void save_weights(const PlannedFile& planned, const std::filesystem::path& folder,
                  std::uint64_t max_shard_bytes, FileSystem& files = real_file_system());

/// Weights that are read one by one, when their turn comes: a model larger than the memory passes
/// through, and a file that claims terabytes is found out by its outlines.
struct WeightReader {
  std::vector<NamedTensor> outlines;  ///< Names, shapes and dtypes; what data they have is not said.
  std::function<at::Tensor(const std::string& name)> read;
  /// Elements begin, …, begin + numel - 1 of one, row-major, shape {numel}.
  std::function<at::Tensor(const std::string& name, std::int64_t begin, std::int64_t numel)>
      read_range;
};

/// The weights at `path`, on the CPU, without a copy where the file allows it: what is read lies in
/// mapped files, which it keeps open, and is to be read only. map_weight_files says what `path` may
/// be: a file, an index or a folder, of safetensors or of torch.save. Trusts nothing and executes
/// nothing. Throws CheckpointError. Cost: headers are read; a read, of a range too, is free for
/// elements that lie row-major and aligned, else one copy of the whole tensor.
[[nodiscard]] WeightReader map_weights(const std::filesystem::path& path,
                                       FileSystem& files = real_file_system());

}  // namespace accelerate
