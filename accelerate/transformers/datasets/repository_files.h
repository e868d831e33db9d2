// Finds the files of a dataset repository of the Hugging Face hub that hold its rows. Decides as
// Python's `datasets` 5.2, by the names of the files and by the card. Downloads nothing and runs no
// script.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "accelerate/transformers/datasets/repository/chosen_files.h"

namespace accelerate {

struct RepositoryOptions {
  std::string config = {};    ///< Empty: the default configuration.
  std::string data_dir = {};  ///< Looks for files only below this folder.
  /// Replaces the patterns that the card or the names of the files give.
  RepositorySplits data_files = {};
  /// The text of ".huggingface.yaml", if the repository has it. Its keys replace the card's.
  std::string_view standalone_yaml = {};
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
