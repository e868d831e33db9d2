// The formats that Python's `datasets` tells from the extensions of files.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/datasets/repository_files.h"

namespace accelerate::detail {

struct FileFormat {
  std::string name;      ///< Of the module of `datasets`, such as "csv" or "imagefolder".
  char delimiter = ',';  ///< A tab for .tsv.

  [[nodiscard]] bool operator==(const FileFormat&) const = default;
};

/// Tells whether `datasets` takes a file with this name for data: any part behind a dot is an
/// extension it knows, as in "a.csv.gz".
[[nodiscard]] bool has_data_extension(std::string_view path);

/// Tells whether the readers of `format`, one of csv, json, parquet and text, are given this file.
[[nodiscard]] bool is_of_format(std::string_view path, const std::string& format);

/// Returns the format that all splits share: of each the one with most files. Throws DataError,
/// which names the extensions found, if there is none, if splits differ, or if the format is none
/// of csv, json, parquet and text.
/// Source: infer_module_for_data_files() of datasets/load.py.
[[nodiscard]] FileFormat common_format(const RepositorySplits& splits);

/// Throws DataError for a split without files, for a file of another format and for a compressed
/// file.
void check_readable(const RepositorySplits& splits, const std::string& format);

}  // namespace accelerate::detail
