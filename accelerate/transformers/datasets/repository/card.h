// Reads the configurations that the card of a dataset repository declares.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accelerate/formats/documents/document.h"
#include "accelerate/transformers/datasets/repository/chosen_files.h"

namespace accelerate::detail {

struct CardConfig {
  std::string name;
  bool is_default = false;
  bool names_data_files = false;  ///< Whether the key exists; its value may be null.
  std::optional<RepositorySplits> data_files = {};
  std::string data_dir = {};
  Node values;  ///< All keys and values of the configuration, a map.
};

/// Reads `configs` from the front matter of README.md and from the text of ".huggingface.yaml".
/// Keys of ".huggingface.yaml" win. Either text may be "". The result is empty if there are no
/// configurations. Throws ConfigError for damaged YAML, and for configurations that `datasets`
/// refuses as well. Source: datasets/utils/metadata.py, sanitize_patterns() of
/// datasets/data_files.py.
[[nodiscard]] std::vector<CardConfig> read_card(std::string_view readme,
                                                std::string_view standalone_yaml);

/// Sets `files.delimiter` and `files.json_field` from the configuration. Throws ConfigError for
/// other values that would change what is read, such as `skiprows` of csv. Ignores all other
/// values, as `datasets` does.
void apply_values(const CardConfig& config, RepositoryFiles& files);

}  // namespace accelerate::detail
