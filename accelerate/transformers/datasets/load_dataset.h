// Loads files as datasets.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accelerate/transformers/datasets/dataset_dict.h"
#include "accelerate/transformers/datasets/iterable_dataset.h"
#include "accelerate/transformers/datasets/readers/chunk_reader.h"
#include "accelerate/transformers/hub/repository.h"

namespace accelerate {

/// Files by split: one path, several paths, or several splits with paths. Files without the name of
/// a split are "train". The last part of a path may contain '*' and '?'; matching files are read in
/// the order of their names.
class DataFiles {
 public:
  using Paths = std::vector<std::string>;

  DataFiles() = default;
  DataFiles(const char* file) : DataFiles(Paths{file}) {}                            // NOLINT
  DataFiles(const std::string& file) : DataFiles(Paths{file}) {}                     // NOLINT
  DataFiles(const std::filesystem::path& file) : DataFiles(Paths{file.string()}) {}  // NOLINT
  DataFiles(Paths files) : splits_{{"train", std::move(files)}} {}                   // NOLINT
  DataFiles(std::vector<std::pair<std::string, Paths>> splits)
      : splits_(std::move(splits)) {}  // NOLINT
  DataFiles(std::initializer_list<const char*> files)
      : DataFiles(Paths(files.begin(), files.end())) {}
  DataFiles(std::initializer_list<std::pair<std::string, std::string>> splits) {
    for (const auto& [split, file] : splits) splits_.emplace_back(split, Paths{file});
  }

  [[nodiscard]] const std::vector<std::pair<std::string, Paths>>& splits() const { return splits_; }

 private:
  std::vector<std::pair<std::string, Paths>> splits_;
};

struct LoadDatasetOptions {
  DataFiles data_files = {};
  std::string split = {};                 ///< The only split to load; empty: all.
  std::optional<Features> features = {};  ///< Default: found in the first 10,000 rows.
  CsvOptions csv = {};
  JsonOptions json = {};
  /// Keeps rows in memory. Otherwise rows go to the cache of datasets and are mapped, so they may
  /// exceed the memory.
  bool keep_in_memory = false;
  bool load_from_cache_file = true;      ///< false: reads the files again.
  std::filesystem::path cache_dir = {};  ///< Default: datasets_cache_folder().
  std::string name = {};      ///< The configuration of a repository; empty: its default one.
  std::string data_dir = {};  ///< The folder of a repository in which files are looked for.
  HubOptions hub = {};        ///< How to reach a repository; .type is ignored: it is a dataset.
};

/// Reads "csv", "json", "text" or "parquet" files, or the files of a repository: a dataset of the
/// hub, or a folder with the same layout. The `configs` in a repository's card say which files
/// belong to which split; without `configs`, the names of the files decide. For a repository,
/// .data_files are patterns in it. Only the files that are needed are fetched; scripts are never
/// run. The first call writes rows to the cache. Later calls map the cache, as long as path, size
/// and time of change of every file are the same. Throws UsageError for an unknown split. Throws
/// ConfigError for a name that is neither a format nor a repository, and for a configuration that
/// is unknown or must be named. Throws what fetch_folder() throws, and FileError for files that
/// cannot be opened. Throws DataError, with file, line and column, for damaged files, and for a
/// file that changes while it is read. Cost: one pass over the files; memory for 10,000 rows and
/// for 16 MiB that are written at a time. A JSON file with .field is held in memory whole.
[[nodiscard]] DatasetDict load_dataset(std::string_view format,
                                       const LoadDatasetOptions& options = {});

/// As load_dataset(), but reads files only when rows are asked for, and writes no cache.
[[nodiscard]] IterableDatasetDict stream_dataset(std::string_view format,
                                                 const LoadDatasetOptions& options);

}  // namespace accelerate
