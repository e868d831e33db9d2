// Files as datasets.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accelerate/datasets/dataset_dict.h"
#include "accelerate/datasets/iterable_dataset.h"
#include "accelerate/datasets/readers/chunk_reader.h"
#include "accelerate/hub/repository.h"

namespace accelerate {

/// Files by split: one path, several, or several by the name of their split. A path may have '*'
/// and '?' in its last part; the files that match are taken in the order of their names.
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
  std::string split = {};                 ///< Leaves this one in the result.
  std::optional<Features> features = {};  ///< Else found in the first 10,000 rows.
  CsvOptions csv = {};
  JsonOptions json = {};
  /// Otherwise rows are kept in the cache of datasets and mapped, so that they may be more than
  /// memory holds.
  bool keep_in_memory = false;
  bool load_from_cache_file = true;      ///< Otherwise reads the files anew.
  std::filesystem::path cache_dir = {};  ///< Else datasets_cache_folder().
  std::string name = {};      ///< The configuration of a repository; its default when empty.
  std::string data_dir = {};  ///< Of a repository: the folder in which its files are looked for.
  HubOptions hub = {};        ///< Of a repository. It is a dataset whatever .type says.
};

/// Reads "csv", "json", "text" or "parquet" files, or those of a repository: a dataset of the hub,
/// or a folder that is laid out as one. A repository's card says by `configs` which files are in
/// which split; without it the names of the files say it. .data_files are then patterns in the
/// repository. Only files that are needed are fetched; scripts are never run. The first time rows
/// are written to the cache; later the cache is mapped, as long as path, size and time of every
/// file are the same. Throws UsageError for a split that is not there, ConfigError for a name that
/// is nothing of these and for a configuration that is unknown or must be chosen, what
/// fetch_folder() throws, FileError for files that cannot be opened, DataError with file, line and
/// column for damaged ones and for a file that changes while it is read. Cost: one pass over the
/// files; memory for 10,000 rows and for 16 MiB that are written at a time, and of a JSON file with
/// .field for all of it.
[[nodiscard]] DatasetDict load_dataset(std::string_view format, const LoadDatasetOptions& options);

/// As load_dataset(), but reads while rows are asked for, and keeps nothing.
[[nodiscard]] IterableDatasetDict stream_dataset(std::string_view format,
                                                 const LoadDatasetOptions& options);

}  // namespace accelerate
