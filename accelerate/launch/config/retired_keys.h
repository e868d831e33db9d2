// Keys of configuration files that older versions of the original wrote, or that belong to other
// places, and that change nothing today. Reading skips them; whoever reads tells the user.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "accelerate/formats/documents/document.h"

namespace accelerate {

struct ClusterConfig;

struct RetiredKey {
  std::string key;  ///< As it stands in the file: "ipex_config", "distributed_type: MPS".
  int line = 0;
  std::string purpose;  ///< What it was for, as in "was for Apple's GPUs".
};

/// Returns "'ipex_config' (line 4) was for Intel's extension of PyTorch".
[[nodiscard]] std::string describe(const RetiredKey& key);

/// Reads a configuration file as load_cluster_config(file) does, and says in `retired` which of its
/// keys were skipped.
[[nodiscard]] ClusterConfig load_cluster_config(const std::filesystem::path& file,
                                                std::vector<RetiredKey>& retired);

/// Reads a text in the same way; see parse_cluster_config().
[[nodiscard]] ClusterConfig parse_cluster_config(const std::string& text, const std::string& name,
                                                 std::vector<RetiredKey>& retired);

namespace detail {

/// Takes the retired keys out of a file's content, and returns them in the order of the file.
[[nodiscard]] std::vector<RetiredKey> take_retired_keys(Node& root);

}  // namespace detail
}  // namespace accelerate
