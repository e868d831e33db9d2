// The files of a dataset repository that hold its rows, by split, and how to read them.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace accelerate {

/// Patterns or paths, by the name of their split.
using RepositorySplits = std::vector<std::pair<std::string, std::vector<std::string>>>;

struct RepositoryFiles {
  std::string config;      ///< The name of the configuration, "default" if the card has none.
  std::string format;      ///< "csv", "json", "parquet" or "text".
  char delimiter = ',';    ///< For csv: a tab for .tsv files, or what the card says.
  std::string json_field;  ///< For json: the key that holds the rows; "" if none.
  /// Paths in the repository. Splits and paths are in the order of `datasets`. If two patterns
  /// match a path, it appears twice, because `datasets` reads the file twice.
  RepositorySplits splits;
};

}  // namespace accelerate
