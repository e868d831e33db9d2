// Fetches the files of a dataset repository, which may be a local folder or on the hub.
#pragma once

#include <string>

#include "accelerate/datasets/load_dataset.h"
#include "accelerate/datasets/repository_files.h"

namespace accelerate::detail {

/// Fetches the files that choose_files() chooses; if LoadDatasetOptions::split names a split, only
/// its files. The returned paths are files on the disk. Throws UsageError for an unknown split.
/// Throws what choose_files() and fetch_folder() throw.
[[nodiscard]] RepositoryFiles fetch_dataset(const std::string& name_or_folder,
                                            const LoadDatasetOptions& options);

}  // namespace accelerate::detail
