// Finds the format of files by their extensions, as Python's `datasets` does.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/transformers/datasets/repository/chosen_files.h"

namespace accelerate::detail {

struct FileFormat {
  std::string name;      ///< Name of the module of `datasets`, such as "csv" or "imagefolder".
  char delimiter = ',';  ///< A tab for .tsv.

  [[nodiscard]] bool operator==(const FileFormat&) const = default;
};

/// Whether `datasets` takes a file with this name for data: any part after a dot is an extension
/// that it knows, as in "a.csv.gz".
[[nodiscard]] bool has_data_extension(std::string_view path);

/// Whether the reader of `format` (csv, json, parquet or text) reads a file with this name.
[[nodiscard]] bool is_of_format(std::string_view path, const std::string& format);

/// Returns the format that all splits share. The format of a split is the one that most of its
/// files have. Throws DataError, with the extensions found, if no format is found, if splits
/// differ, or if the format is not csv, json, parquet or text. Source:
/// infer_module_for_data_files() of datasets/load.py.
[[nodiscard]] FileFormat common_format(const RepositorySplits& splits);

/// Throws DataError for a split without files, for a file of another format and for a compressed
/// file.
void check_readable(const RepositorySplits& splits, const std::string& format);

}  // namespace accelerate::detail
