// The files of a dataset's repository, from wherever they are.
#pragma once

#include <string>

#include "accelerate/datasets/load_dataset.h"
#include "accelerate/datasets/repository_files.h"

namespace accelerate::detail {

/// What choose_files() chooses, for one split where LoadDatasetOptions::split names one. The paths
/// are those of files on the disk. Throws UsageError for a split that is not there, what
/// choose_files() and fetch_folder() throw.
[[nodiscard]] RepositoryFiles fetch_dataset(const std::string& name_or_folder,
                                            const LoadDatasetOptions& options);

}  // namespace accelerate::detail
