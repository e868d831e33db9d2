// Fetches the files of a dataset repository, which may be a local folder or on the hub.
#pragma once

#include <string>

#include "accelerate/transformers/datasets/repository_files.h"
#include "accelerate/transformers/hub/repository.h"

namespace accelerate::detail {

/// Fetches the files that choose_files() chooses; if `split` is not empty, only the files of this
/// split. The returned paths are files on the disk. Takes RepositoryOptions::standalone_yaml from
/// the repository and ignores HubOptions::type. Throws UsageError for an unknown split. Throws what
/// choose_files() and fetch_folder() throw.
[[nodiscard]] RepositoryFiles fetch_dataset(const std::string& name_or_folder,
                                            RepositoryOptions options, const std::string& split,
                                            const HubOptions& hub);

}  // namespace accelerate::detail
