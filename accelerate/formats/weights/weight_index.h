// The index of a model whose weights lie in several files, `model.safetensors.index.json`, and the
// plan that distributes weights among files. Both equal huggingface_hub's byte for byte.
// docs/formats/weight_index.md has the keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/base/file_system.h"

namespace accelerate::detail {

// Numbers in the names of files.

/// Returns "00012"; more digits if five are not enough.
[[nodiscard]] std::string five_digits(std::size_t number);

/// Whether `text` consists of digits; false for "".
[[nodiscard]] bool all_digits(std::string_view text);

}  // namespace accelerate::detail

namespace accelerate {

/// Our limits for an index.
struct WeightIndexLimits {
  static constexpr std::size_t kFileBytes = 100'000'000;
  static constexpr std::size_t kTensors = 1'000'000;
  static constexpr std::size_t kNameBytes = 4096;  ///< Of a tensor's name.
  static constexpr std::size_t kFileNameBytes = 255;
};

struct WeightIndex {
  /// The key metadata.total_size; files by other writers may lack it.
  std::optional<std::uint64_t> total_bytes = {};
  /// Tensor's name → file's name, in the same folder.
  std::map<std::string, std::string> files = {};

  /// Returns the names of the files, sorted, each once.
  [[nodiscard]] std::vector<std::string> file_names() const;
};

/// Reads the index at `path` and trusts none of it. Throws CheckpointError unless every file is one
/// plain name without a path, no tensor appears twice, there is at least one tensor, and nothing
/// exceeds WeightIndexLimits.
[[nodiscard]] WeightIndex read_weight_index(const std::filesystem::path& path,
                                            FileSystem& files = real_file_system());

/// Returns the text of an index as huggingface_hub writes it: keys sorted, indented by 2, a line
/// feed at the end. Throws UsageError where read_weight_index() would refuse it.
[[nodiscard]] std::string weight_index_text(const WeightIndex& index);

/// A tensor to be placed into a file.
struct ShardItem {
  std::string name;
  std::uint64_t size_bytes = 0;
};

/// One file and the tensors it holds.
struct WeightShard {
  std::string file_name;
  std::vector<std::string> names;  ///< In the order given.
  std::uint64_t size_bytes = 0;    ///< Sum of its tensors.
};

/// The pattern of file names. "model" and ".safetensors" give "model.safetensors" for one file,
/// "model-00001-of-00003.safetensors" for several.
struct ShardNames {
  std::string stem = "model";
  std::string extension = ".safetensors";

  [[nodiscard]] std::string file_name(std::size_t number, std::size_t count) const;
  /// Returns the name of the index: "model.safetensors.index.json".
  [[nodiscard]] std::string index_name() const { return stem + extension + ".index.json"; }
  /// Whether an earlier save with these names may have left this file: the single file, a shard, or
  /// the index. Such files are removed before or after another save.
  [[nodiscard]] bool is_own(std::string_view file_name) const;
};

/// Returns the names of weights: model.safetensors, or pytorch_model.bin of torch.save.
[[nodiscard]] ShardNames weight_names(bool safe_serialization);

/// Distributes `items`, in the order given, among files of at most `max_shard_bytes`. A file is
/// closed when the next tensor does not fit. A tensor larger than the limit gets a file of its own
/// immediately, before the file that is being filled. Give tensors that share memory only once.
/// Without items there is one file with no tensors. Throws UsageError for a name that appears
/// twice. Source: split_state_dict_into_shards_factory of huggingface_hub 1.x.
[[nodiscard]] std::vector<WeightShard> plan_shards(const std::vector<ShardItem>& items,
                                                   std::uint64_t max_shard_bytes,
                                                   const ShardNames& names = {});

/// Returns the index of a plan.
[[nodiscard]] WeightIndex index_of(const std::vector<WeightShard>& shards);

/// Returns the bytes of "5GB", "1.5 mb" (decimal units KB, MB, GB, TB in any case) or a plain
/// "500"; at least one. Throws ConfigError for other texts.
[[nodiscard]] std::uint64_t parse_shard_size(std::string_view text);

}  // namespace accelerate
