// Weights into safetensors files: one, or several with an index, written tensor by tensor from
// wherever they are, so that a model larger than the memory passes through.
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

/// A tensor to be written, and where its bytes come from.
struct WeightSource : TensorSpec {
  /// Hands over the elements, row-major, little-endian, in pieces from the first to the last.
  /// Called once, in its tensor's turn.
  ByteSource stream;
};

struct WriteWeightsOptions {
  /// Of each file; a larger tensor gets a file of its own.
  std::uint64_t max_shard_bytes = 10'000'000'000;
  ShardNames names = {};
  SafetensorsMetadata metadata = {{"format", "pt"}};  ///< Of each file.
  AtomicFileOptions file = {};                        ///< What survives a power cut.
};

/// What has been written.
struct WrittenWeights {
  std::vector<std::string> files;  ///< Their names: the weights, then the index if there is one.
  std::size_t tensors = 0;
  std::uint64_t size_bytes = 0;  ///< Of the tensors.
};

/// Writes `weights` into `folder`, made when it is missing: as model.safetensors, or, when they are
/// more than max_shard_bytes, as shards with an index, dealt out as huggingface_hub does. Files of
/// an earlier save that are not of this one are removed at the end. A reader finds the old weights,
/// the new ones, or, for the moment in which shards of one name are exchanged, none at all (an
/// index is missing), never a mixture. A failure leaves no folder that it made and is empty. Throws
/// CheckpointError; UsageError for a name twice, or a source that gives another number of bytes
/// than its spec says. Cost: one pass, and of memory what the sources take for a piece.
WrittenWeights write_weights(const std::vector<WeightSource>& weights,
                             const std::filesystem::path& folder,
                             const WriteWeightsOptions& options = {},
                             FileSystem& files = real_file_system());

/// The same into the single file `file`, whatever its size; other files are left alone.
WrittenWeights write_weights_file(const std::vector<WeightSource>& weights,
                                  const std::filesystem::path& file,
                                  const WriteWeightsOptions& options = {},
                                  FileSystem& files = real_file_system());

}  // namespace accelerate
