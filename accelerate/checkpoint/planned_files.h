// What a save is going to write, apart from the writing: files as plain data. Planning asks every
// object for its state and copies nothing; what is planned can then be cut into shards, copied
// aside for a save in the background, or written right away.
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
#include "accelerate/tensor/module_view.h"

namespace accelerate {

/// The part of a tensor that lies on this rank.
struct LocalShard {
  std::string name;
  at::Tensor tensor;  ///< The part: any device, any strides, the shape tile.sizes.
  TensorTile tile;    ///< Where in the whole it lies.
  std::vector<std::int64_t> global_shape;
};

/// A file to be: a text, or tensors as safetensors.
struct PlannedFile {
  std::string name;       ///< One plain file name, which no other rank uses.
  std::string text = {};  ///< The whole content; empty when the file is one of tensors.
  /// Any device, any strides, distinct names; they share their memory with the training.
  std::vector<NamedTensor> tensors = {};
  /// This rank's parts of further tensors of the file, of which other ranks have the rest:
  /// ShardedPlan makes files of them.
  std::vector<LocalShard> shards = {};
  /// Gives those of `tensors` that are on the meta device, by name, when their turn comes. Empty:
  /// such tensors are refused.
  std::function<at::Tensor(const std::string& name)> fetch = {};
  SafetensorsMetadata metadata = {{"format", "pt"}};  ///< Of a file of tensors.
  bool is_model = false;                              ///< The weights of a model.
  bool one_rank = false;  ///< No other rank has planned it: of what each rank has of its own.
};

/// Name, dtype and shape of one of the tensors of `planned`. Throws CheckpointError for one that
/// cannot be written.
[[nodiscard]] TensorSpec spec_of(const PlannedFile& planned, const NamedTensor& item);

/// One of the tensors of `planned`, fetched when it is to be. Throws what fetch does.
[[nodiscard]] at::Tensor data_of(const PlannedFile& planned, const NamedTensor& item);

/// The bytes of all contents: texts, and elements of tensors.
[[nodiscard]] std::uint64_t planned_bytes(const std::vector<PlannedFile>& planned);

/// Writes `planned` into the existing `folder` as new files, each synced (the names are not), and
/// returns what a manifest says of them. Throws CheckpointError; then a part may be there: the
/// folder is to be given up. Local. Cost: one pass over the data, which is checksummed on its way,
/// beside a thread that writes; files of 32 MiB and more bypass the page cache where the file
/// system lets them. Memory: 16 MiB, and up to 16 MiB more for a piece of a tensor that is not
/// contiguous on the CPU.
[[nodiscard]] std::vector<ManifestFile> write_planned(FileSystem& files,
                                                      const std::filesystem::path& folder,
                                                      const std::vector<PlannedFile>& planned,
                                                      const ByteCounter& counter = {});

}  // namespace accelerate
