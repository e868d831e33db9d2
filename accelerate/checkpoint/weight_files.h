// The weights of a model on disk, in one file or several, as Transformers and Accelerate lay them
// out: model.safetensors, or shards with model.safetensors.index.json. Files of torch.save can be
// read, too.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "accelerate/base/file_system.h"
#include "accelerate/checkpoint/planned_files.h"
#include "accelerate/formats/weights/weight_writer.h"
#include "accelerate/tensor/module_view.h"

namespace accelerate {

/// Writes `weights` into `folder`, which is made if it is missing. Writes model.safetensors, or,
/// for more than `max_shard_bytes`, shards with an index, divided as huggingface_hub does. At the
/// end, files of an earlier save are removed. A reader finds the old weights or the new ones, never
/// a mixture. While shards of the same name are exchanged it finds none (an index is missing).
/// Throws CheckpointError. Throws UsageError if a name occurs twice.
void save_weights(const std::vector<NamedTensor>& weights, const std::filesystem::path& folder,
                  std::uint64_t max_shard_bytes, FileSystem& files = real_file_system());

/// As above, for a planned file, in any format that write_weights() has. Its tensors may be fetched
/// (see plan_whole).
void save_weights(const PlannedFile& planned, const std::filesystem::path& folder,
                  const WriteWeightsOptions& options, FileSystem& files = real_file_system());

/// Weights that are read one by one, when they are needed. So a model may be larger than memory,
/// and a file that claims terabytes is detected by its outlines.
struct WeightReader {
  /// Names, shapes and dtypes; their data is not defined.
  std::vector<NamedTensor> outlines;
  std::function<at::Tensor(const std::string& name)> read;
  /// Reads the elements begin, …, begin + numel - 1 of a tensor, row-major, shape {numel}.
  std::function<at::Tensor(const std::string& name, std::int64_t begin, std::int64_t numel)>
      read_range;
};

/// Opens the weights at `path`, on the CPU, without a copy where the file allows it. Tensors then
/// lie in mapped files, which the reader keeps open, and must not be written. `path` is a file, an
/// index or a folder, of safetensors or of torch.save; see map_weight_files. Trusts nothing in the
/// files and executes nothing. Throws CheckpointError. Cost: headers are read. Reading a tensor or
/// a range is free if its elements are row-major and aligned, else it costs a copy of the whole
/// tensor.
[[nodiscard]] WeightReader map_weights(const std::filesystem::path& path,
                                       FileSystem& files = real_file_system());

}  // namespace accelerate
