// Finds the files of a dataset repository of the Hugging Face hub that hold its rows. Decides as
// Python's `datasets` 5.2, by the names of the files and by the card. Downloads nothing and runs no
// script.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace accelerate {

/// Patterns or paths, by the name of their split.
using RepositorySplits = std::vector<std::pair<std::string, std::vector<std::string>>>;

struct RepositoryOptions {
  std::string config = {};    ///< Empty: the default configuration.
  std::string data_dir = {};  ///< Looks for files only below this folder.
  /// Replaces the patterns that the card or the names of the files give.
  RepositorySplits data_files = {};
  /// The text of ".huggingface.yaml", if the repository has it. Its keys replace the card's.
  std::string_view standalone_yaml = {};
};

struct RepositoryFiles {
  std::string config;      ///< The name of the configuration, "default" if the card has none.
  std::string format;      ///< "csv", "json", "parquet" or "text".
  char delimiter = ',';    ///< For csv: a tab for .tsv files, or what the card says.
  std::string json_field;  ///< For json: the key that holds the rows; "" if none.
  /// Paths in the repository. Splits and paths are in the order of `datasets`. If two patterns
  /// match a path, it appears twice, because `datasets` reads the file twice.
  RepositorySplits splits;
};

/// Chooses the files of one configuration. `files`: the paths of all files in the repository.
/// `card`: the text of README.md; "" if none. Throws ConfigError for a damaged card, for a card
/// with settings that would change rows unnoticed, and for a configuration that is unknown or must
/// be named. Throws DataError if no files are found, if they are compressed, or if their format is
/// not csv, json, parquet or text. Unlike `datasets`, never reads configurations from
/// `dataset_info` in the card. Cost: patterns times paths; usually there are about 65 patterns.
/// Source: datasets/load.py (HubDatasetModuleFactory), data_files.py and utils/metadata.py.
[[nodiscard]] RepositoryFiles choose_files(const std::vector<std::string>& files,
                                           std::string_view card,
                                           const RepositoryOptions& options = {});

/// Returns the names of the configurations in the order of the card; {"default"} if the card has
/// none. Throws as choose_files() for the card and the files, but does not choose a configuration.
[[nodiscard]] std::vector<std::string> config_names(const std::vector<std::string>& files,
                                                    std::string_view card);

}  // namespace accelerate
