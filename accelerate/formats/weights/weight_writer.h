// Writes weights into files of safetensors or torch.save: one file, or several with an index.
// Tensors are written one by one from wherever they are, so a model larger than the memory can be
// written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "accelerate/base/file_system.h"
#include "accelerate/formats/safetensors/safetensors.h"
#include "accelerate/formats/weights/weight_index.h"

namespace accelerate {

/// A tensor to be written, and the source of its bytes.
struct WeightSource : TensorSpec {
  /// Hands over the elements, row-major, little-endian, in pieces from the first to the last.
  /// Called once, when it is the tensor's turn.
  ByteSource stream;
};

struct WriteWeightsOptions {
  /// The largest size of a file; a larger tensor gets a file of its own.
  std::uint64_t max_shard_bytes = 10'000'000'000;
  /// Whether the files are safetensors (model.safetensors) or torch.save's (pytorch_model.bin).
  bool safe_serialization = true;
  SafetensorsMetadata metadata = {{"format", "pt"}};  ///< Metadata of each safetensors file.
  AtomicFileOptions file = {};                        ///< Says what survives a power cut.
};

/// What was written.
struct WrittenWeights {
  std::vector<std::string> files;  ///< Names: the weights, then the index if there is one.
  std::size_t tensors = 0;
  std::uint64_t size_bytes = 0;  ///< Sum of the tensors.
};

/// Writes `weights` into `folder`, which is created if it is missing. The result is
/// model.safetensors or pytorch_model.bin, or shards with an index if the weights exceed
/// max_shard_bytes. Shards are planned as in huggingface_hub. Files of an earlier save
/// that this save did not replace are removed at the end. Among them are safetensors beside files
/// of torch.save, because readers would take them instead.
///
/// A reader finds the old weights or the new weights, never a mixture. While shards with the same
/// names are exchanged it finds none, because the index is missing. On failure, empty folders that
/// this function created are removed.
///
/// Throws CheckpointError; UsageError for a name that appears twice, or a source whose number of
/// bytes differs from its spec. Cost: one pass; memory for what the sources use for one piece.
WrittenWeights write_weights(const std::vector<WeightSource>& weights,
                             const std::filesystem::path& folder,
                             const WriteWeightsOptions& options = {},
                             FileSystem& files = real_file_system());

/// Like write_weights(), but writes everything into the single file `file`, whatever its size.
/// Other files are left alone.
WrittenWeights write_weights_file(const std::vector<WeightSource>& weights,
                                  const std::filesystem::path& file,
                                  const WriteWeightsOptions& options = {},
                                  FileSystem& files = real_file_system());

}  // namespace accelerate
