// What a save is going to write, as plain data. Planning asks every object for its state and copies
// nothing. Planned files can then be cut into shards, copied for a save in the background, or
// written immediately.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "accelerate/base/file_system.h"
#include "accelerate/formats/manifest.h"
#include "accelerate/formats/safetensors/safetensors_layout.h"
#include "accelerate/formats/shards/tensor_tiles.h"
#include "accelerate/formats/weights/weight_writer.h"
#include "accelerate/tensor/module_view.h"

namespace accelerate {

/// The part of a tensor that lies on this rank.
struct LocalShard {
  std::string name;
  at::Tensor tensor;  ///< The part: any device, any strides, the shape tile.sizes.
  TensorTile tile;    ///< Its place in the whole tensor.
  std::vector<std::int64_t> global_shape;
};

/// A file to be written: a text, or tensors as safetensors.
struct PlannedFile {
  std::string name;       ///< A plain file name, which no other rank uses.
  std::string text = {};  ///< The whole content; empty if the file holds tensors.
  /// Any device, any strides, distinct names. They share their memory with the training.
  std::vector<NamedTensor> tensors = {};
  /// This rank's parts of further tensors of the file. Other ranks have the rest. ShardedPlan makes
  /// files of them.
  std::vector<LocalShard> shards = {};
  /// Returns a tensor of `tensors` that is on the meta device, by name, when it is needed. If
  /// empty, such tensors are refused.
  std::function<at::Tensor(const std::string& name)> fetch = {};
  SafetensorsMetadata metadata = {{"format", "pt"}};  ///< Of a file of tensors.
  /// Whether it holds the weights of a model.
  bool is_model = false;
  /// Whether only this rank has planned it, for state that each rank has separately.
  bool one_rank = false;
};

/// Returns the name, dtype and shape of a tensor of `planned`. Throws CheckpointError if the tensor
/// cannot be written.
[[nodiscard]] TensorSpec spec_of(const PlannedFile& planned, const NamedTensor& item);

/// Returns a tensor of `planned`, fetching it if necessary. Throws what `fetch` throws.
[[nodiscard]] at::Tensor data_of(const PlannedFile& planned, const NamedTensor& item);

/// Returns the bytes of all contents: texts, and elements of tensors.
[[nodiscard]] std::uint64_t planned_bytes(const std::vector<PlannedFile>& planned);

/// Writes `planned` into the existing `folder` as new files and returns their manifest entries.
/// Each file is synced; the folder is not. Throws CheckpointError; some files may exist then, and
/// the folder should be deleted. Local. Cost: one pass over the data, checksummed on the way, while
/// a second thread writes. Files of 32 MiB and more bypass the page cache where the file system
/// allows it. Memory: 16 MiB, and up to 16 MiB more for a piece of a tensor that is not contiguous
/// on the CPU.
[[nodiscard]] std::vector<ManifestFile> write_planned(FileSystem& files,
                                                      const std::filesystem::path& folder,
                                                      const std::vector<PlannedFile>& planned,
                                                      const ByteCounter& counter = {});

/// Writes the tensors of `planned` as the weights of a model into `folder`, as write_weights() does.
/// They may be fetched (see plan_whole).
void save_weights(const PlannedFile& planned, const std::filesystem::path& folder,
                  const WriteWeightsOptions& options);

}  // namespace accelerate
