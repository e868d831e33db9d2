// Files of shards: how they are called, and which tensors a rank writes into which. Names and
// contents are those of PyTorch's distributed checkpoints in their Hugging Face layout; every byte
// is in docs/formats/sharded.md.
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
  std::size_t number = 1;  ///< Of this writer's files, from 1.
  std::size_t count = 1;

  [[nodiscard]] std::string text() const;
  /// nullopt for a name that is none.
  [[nodiscard]] static std::optional<ShardFileName> parse(std::string_view name);
};

/// The files of shards of `stem` in `folder`, sorted; none when there are none. Throws FileError.
[[nodiscard]] std::vector<std::filesystem::path> shard_files_in(
    const std::filesystem::path& folder, const std::string& stem = "model",
    FileSystem& files = real_file_system());

/// The name of a tensor of `stem` in its shards. A reader that takes all files of a folder
/// together, as PyTorch's does, must find every name once: those of "model" are its own, others are
/// "<stem>:<name>".
[[nodiscard]] std::string name_in_shards(const std::string& stem, const std::string& name);
/// The way back; a name without the stem is left as it is.
[[nodiscard]] std::string name_from_shards(const std::string& stem, const std::string& name);

/// A part of a tensor that a rank has: `shape` is that of the whole tensor.
struct TensorPart : TensorSpec {
  TensorTile tile;
};

/// One file to be written.
struct PlannedShard {
  std::string file_name;
  std::vector<TensorSpec> specs;   ///< With the shapes of the parts.
  std::vector<std::size_t> parts;  ///< Of those given, which one each of `specs` is.
  SafetensorsMetadata metadata;
};

/// The files in which rank `rank` writes its `parts` of the tensors of `stem`: one, or none without
/// parts, or as many as it has parts of one tensor, since a file holds a name once. A
/// part without elements of a tensor that has some is left out. Throws UsageError for a part that
/// leaves its tensor.
[[nodiscard]] std::vector<PlannedShard> plan_shard_files(const std::string& stem, std::size_t rank,
                                                         const std::vector<TensorPart>& parts);

/// Deals tensors that every rank has among `ranks` ranks, so that each writes about as many bytes:
/// the tensors, in the order given, are a line that is cut into equal parts. A cut through a tensor
/// is moved to the nearest row (of the first dimension longer than 1); a tensor of at most
/// `whole_bytes` is not cut but goes to the rank in whose part its middle lies. Returns the parts
/// of each rank; all tensors are covered. Throws UsageError for a size that overflows.
[[nodiscard]] std::vector<std::vector<TensorPart>> deal_to_ranks(
    const std::vector<TensorSpec>& tensors, std::size_t ranks,
    std::uint64_t whole_bytes = std::uint64_t{64} << 10);

}  // namespace accelerate
