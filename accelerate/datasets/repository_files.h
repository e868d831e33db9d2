// Which files of a dataset repository of the Hugging Face hub are its rows, as Python's `datasets`
// 5.2 decides it from the names of the files and the card. Nothing is downloaded, no script runs.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace accelerate {

/// Patterns or paths by the name of their split.
using RepositorySplits = std::vector<std::pair<std::string, std::vector<std::string>>>;

struct RepositoryOptions {
  std::string config = {};    ///< "" for the default configuration.
  std::string data_dir = {};  ///< Looks for files below this folder only.
  /// Takes these patterns instead of what the card or the names of the files say.
  RepositorySplits data_files = {};
  /// The text of ".huggingface.yaml", if the repository has it. Its keys replace the card's.
  std::string_view standalone_yaml = {};
};

struct RepositoryFiles {
  std::string config;      ///< The name of the configuration, "default" if the card has none.
  std::string format;      ///< "csv", "json", "parquet" or "text".
  char delimiter = ',';    ///< Of csv: a tab for .tsv files, or what the card says.
  std::string json_field;  ///< Of json: the key that holds the rows, "" if none.
  /// Paths in the repository. Splits and paths have the order of `datasets`. A path is named twice
  /// if two patterns match it, because `datasets` reads it twice.
  RepositorySplits splits;
};

/// Chooses the files of one configuration.
/// `files`: the paths of all files in the repository; `card`: the text of README.md, "" if none.
/// Throws ConfigError for a card that is damaged or asks for what would change rows unnoticed, and
/// for a configuration that is unknown or must be named. Throws DataError if no files are found,
/// or if they are compressed or of another format than csv, json, parquet and text.
/// Unlike `datasets`, never takes `dataset_info` of the card for a list of configurations.
/// Cost: patterns times paths; the usual patterns are about 65.
/// Source: datasets/load.py (HubDatasetModuleFactory), data_files.py and utils/metadata.py.
[[nodiscard]] RepositoryFiles choose_files(const std::vector<std::string>& files,
                                           std::string_view card,
                                           const RepositoryOptions& options = {});

/// Returns the names of the configurations in the order of the card; {"default"} if it has none.
/// Throws as choose_files() does for a card or for files that no configuration can be chosen from.
[[nodiscard]] std::vector<std::string> config_names(const std::vector<std::string>& files,
                                                    std::string_view card);

}  // namespace accelerate
