// The weights of one model out of a folder of shards, into files that everything reads. What
// `accelerate merge-weights` does; docs/merge_weights.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "accelerate/base/file_system.h"
#include "accelerate/formats/weights/weight_writer.h"

namespace accelerate {

struct MergeWeightsOptions {
  /// Of each file that is written; a larger tensor gets a file of its own.
  std::uint64_t max_shard_bytes = 10'000'000'000;
  /// "model_1" of a state folder with several models; may stay empty when there is one.
  std::string model = {};
  /// Removes the source once the output would survive a power cut. Refused, before anything is
  /// written, when the source holds anything else than what is merged or a state folder's files, or
  /// is given by a symbolic link.
  bool remove_source = false;
};

struct MergedWeights {
  WrittenWeights written;
  std::size_t source_files = 0;
};

/// Merges the weights in the folder `source` into the folder `output`, as model.safetensors or
/// shards with an index (see write_weights, which also says what becomes of files that are there).
/// `source` is
/// - a state folder of ours, in shards or not, whose checksums are compared first,
/// - a folder of shards of ours or of PyTorch's distributed checkpoints (Hugging Face layout),
/// - or one with model.safetensors or its index.
/// Throws CheckpointError, also for PyTorch's pickled distributed checkpoints; UsageError when
/// `output` lies in `source`. Cost: one pass over the data, two with checksums; memory: 8 MiB for
/// tensors in several parts, whatever their size.
MergedWeights merge_weights(const std::filesystem::path& source,
                            const std::filesystem::path& output,
                            const MergeWeightsOptions& options = {},
                            FileSystem& files = real_file_system());

}  // namespace accelerate
