// Files of shards: their names, and which tensors a rank writes into which file. Names and contents
// are those of PyTorch's distributed checkpoints in their Hugging Face layout.
// docs/formats/sharded.md describes every byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/base/file_system.h"
#include "accelerate/formats/safetensors/safetensors_layout.h"
#include "accelerate/formats/shards/tensor_tiles.h"

namespace accelerate {

/// "shard-00002-model-00001-of-00001.safetensors": the second writer's only file of "model".
struct ShardFileName {
  std::string stem = "model";
  std::size_t writer = 1;  ///< Rank + 1.
  std::size_t number = 1;  ///< Number among this writer's files, from 1.
  std::size_t count = 1;

  [[nodiscard]] std::string text() const;
  /// Parses a name; nullopt if it is not the name of a shard.
  [[nodiscard]] static std::optional<ShardFileName> parse(std::string_view name);
};

/// Returns the files in `folder` that hold shards of `stem`, sorted; empty if there are none.
/// Throws FileError.
[[nodiscard]] std::vector<std::filesystem::path> shard_files_in(
    const std::filesystem::path& folder, const std::string& stem = "model",
    FileSystem& files = real_file_system());

/// Returns the name that a tensor of `stem` has in shards. Readers such as PyTorch's take all files
/// of a folder together, so every name must be unique in the folder. The tensors of "model" keep
/// their names, all others become "<stem>:<name>".
[[nodiscard]] std::string name_in_shards(const std::string& stem, const std::string& name);
/// Reverses name_in_shards(); a name without the stem is returned unchanged.
[[nodiscard]] std::string name_from_shards(const std::string& stem, const std::string& name);

/// A part of a tensor that a rank holds. `shape` is the shape of the whole tensor.
struct TensorPart : TensorSpec {
  TensorTile tile;
};

/// One file to be written.
struct PlannedShard {
  std::string file_name;
  std::vector<TensorSpec> specs;   ///< Specs with the shapes of the parts.
  std::vector<std::size_t> parts;  ///< For each of `specs`, the index of its part.
  SafetensorsMetadata metadata;
};

/// Plans the files in which rank `rank` writes its `parts` of the tensors of `stem`. It is one
/// file, or none without parts. A file holds a name once, so several parts of one tensor take as
/// many files. A part without elements is left out if its tensor has elements. Throws UsageError
/// for a part that leaves its tensor.
[[nodiscard]] std::vector<PlannedShard> plan_shard_files(const std::string& stem, std::size_t rank,
                                                         const std::vector<TensorPart>& parts);

/// Distributes tensors that every rank holds among `ranks` ranks, so that each writes about as many
/// bytes. The tensors, in the order given, form a line that is cut into equal parts. A cut through
/// a tensor is moved to the nearest row of its first dimension longer than 1. Some tensors are
/// never cut: those of at most `whole_bytes`, of one element, or of a 4-bit or 6-bit type. Each of
/// them goes to the rank whose part holds its middle. Returns the parts of each rank; all tensors
/// are covered. Throws UsageError for a size that overflows.
[[nodiscard]] std::vector<std::vector<TensorPart>> deal_to_ranks(
    const std::vector<TensorSpec>& tensors, std::size_t ranks,
    std::uint64_t whole_bytes = std::uint64_t{64} << 10);

}  // namespace accelerate
