// The files of a dataset repository that hold its rows, by split, and how to read them.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accelerate/transformers/datasets/repository/listing.h"

namespace accelerate::detail {

// The rule for the names of splits, as Python's `datasets` has it.

/// Whether a split may have this name: words of letters, digits and '_', with single dots between
/// them. Characters that are not ASCII count as letters.
[[nodiscard]] bool is_split_name(std::string_view name);

}  // namespace accelerate::detail

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

namespace accelerate::detail {

// The patterns that Python's `datasets` tries on a repository whose card names no files.

/// Returns patterns by split for the files below the folder `base`; "" means all files. Kinds of
/// patterns are tried in turn, and the first kind that finds a file is returned. Throws DataError
/// if there are no files, or if the name of a shard does not tell its split. Source:
/// _get_data_files_patterns() of datasets/data_files.py.
[[nodiscard]] RepositorySplits default_patterns(const ListedFiles& files, const std::string& base);

}  // namespace accelerate::detail
