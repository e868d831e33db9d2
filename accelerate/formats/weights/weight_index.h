// The index of a model whose weights lie in several files, `model.safetensors.index.json`, and the
// plan by which weights are dealt out to files. Byte for byte huggingface_hub's; the keys are in
// docs/formats/weight_index.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/base/file_system.h"

namespace accelerate {

/// Our caps on an index.
struct WeightIndexLimits {
  static constexpr std::size_t kFileBytes = 100'000'000;
  static constexpr std::size_t kTensors = 1'000'000;
  static constexpr std::size_t kNameBytes = 4096;  ///< Of a tensor's name.
  static constexpr std::size_t kFileNameBytes = 255;
};

struct WeightIndex {
  std::optional<std::uint64_t> total_bytes =
      {};  ///< The key metadata.total_size; foreign ones may lack it.
  std::map<std::string, std::string> files =
      {};  ///< Tensor's name → file's name, in the same folder.

  /// The names of the files, sorted, each once.
  [[nodiscard]] std::vector<std::string> file_names() const;
};

/// Reads the index at `path` and trusts none of it: every file must be one plain name, no path, no
/// name appears twice, there is a tensor, and nothing exceeds WeightIndexLimits. Throws
/// CheckpointError.
[[nodiscard]] WeightIndex read_weight_index(const std::filesystem::path& path,
                                            FileSystem& files = real_file_system());

/// The text of an index as huggingface_hub writes it: keys sorted, indented by 2, a line feed at
/// the end. Throws UsageError where read_weight_index would refuse it.
[[nodiscard]] std::string weight_index_text(const WeightIndex& index);

/// A tensor to be dealt out.
struct ShardItem {
  std::string name;
  std::uint64_t size_bytes = 0;
};

/// One file and what it holds.
struct WeightShard {
  std::string file_name;
  std::vector<std::string> names;  ///< In the order given.
  std::uint64_t size_bytes = 0;    ///< Of its tensors.
};

/// How file names are made: "model" and ".safetensors" give "model.safetensors" for one file,
/// "model-00001-of-00003.safetensors" for several.
struct ShardNames {
  std::string stem = "model";
  std::string extension = ".safetensors";

  [[nodiscard]] std::string file_name(std::size_t number, std::size_t count) const;
  /// "model.safetensors.index.json".
  [[nodiscard]] std::string index_name() const { return stem + extension + ".index.json"; }
  /// Whether a name is one that a save by these names may have left: the single file, a shard, or
  /// the index. What is to be removed before or after another save.
  [[nodiscard]] bool is_own(std::string_view file_name) const;
};

/// Deals `items`, in the order given, to files of at most `max_shard_bytes`: a file is closed when
/// the next tensor would not fit; a tensor that is bigger gets a file of its own, at once, before
/// the one that is being filled. Tensors that share memory are to be given once. Without items one
/// file with no tensors. Throws UsageError for a name twice. Source:
/// split_state_dict_into_shards_factory of huggingface_hub 1.x.
[[nodiscard]] std::vector<WeightShard> plan_shards(const std::vector<ShardItem>& items,
                                                   std::uint64_t max_shard_bytes,
                                                   const ShardNames& names = {});

/// The index of a plan.
[[nodiscard]] WeightIndex index_of(const std::vector<WeightShard>& shards);

/// Bytes of "5GB", "1.5 mb" (decimal units KB, MB, GB, TB in any case) or a plain "500", at least
/// one. Throws ConfigError.
[[nodiscard]] std::uint64_t parse_shard_size(std::string_view text);

}  // namespace accelerate
