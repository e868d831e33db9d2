// Merges the weights of one model from a folder of shards into files that every reader understands.
// Used by `accelerate merge-weights`; see docs/merge_weights.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "accelerate/base/file_system.h"
#include "accelerate/formats/weights/weight_writer.h"

namespace accelerate {

struct MergeWeightsOptions {
  /// The largest size of an output file; a larger tensor gets a file of its own.
  std::uint64_t max_shard_bytes = 10'000'000'000;
  /// Whether to write safetensors, or pytorch_model.bin of torch.save.
  bool safe_serialization = true;
  /// Which model of a state folder, such as "model_1"; may stay empty if there is only one.
  std::string model = {};
  /// Of a checkpoint of DeepSpeed: which tag; empty takes the one that the file `latest` names.
  std::string tag = {};
  /// Of a checkpoint of DeepSpeed: leaves out parameters that were not trained.
  bool exclude_frozen_parameters = false;
  /// Removes the source once the output would survive a power cut. Refused before anything is
  /// written if the source is a symbolic link, or holds files that are neither merged nor part of a
  /// state folder.
  bool remove_source = false;
};

struct MergedWeights {
  WrittenWeights written;
  std::size_t source_files = 0;
};

/// Merges the weights in the folder `source` into the folder `output`, as model.safetensors or as
/// shards with an index. write_weights() describes the output and what happens to existing files.
/// `source` is one of:
/// - a state folder of ours, in shards or not, whose checksums are compared first,
/// - a folder of shards of ours or of PyTorch's distributed checkpoints: in their Hugging Face
///   layout, or .distcp files with their .metadata,
/// - a state folder that FSDP of Python Accelerate saved, with any state_dict_type but
///   LOCAL_STATE_DICT,
/// - a folder with model.safetensors or its index,
/// - a checkpoint of DeepSpeed, or the folder of one tag of it. Its fp32 weights are merged.
/// Throws CheckpointError; UsageError when `output` lies in `source`. Cost: one pass over the data,
/// two with checksums. Memory: 8 MiB for
/// tensors in several parts, whatever their size.
MergedWeights merge_weights(const std::filesystem::path& source,
                            const std::filesystem::path& output,
                            const MergeWeightsOptions& options = {},
                            FileSystem& files = real_file_system());

}  // namespace accelerate
