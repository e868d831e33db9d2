// The patterns that Python's `datasets` tries on a repository whose card names no files.
#pragma once

#include <string>

#include "accelerate/transformers/datasets/repository/chosen_files.h"
#include "accelerate/transformers/datasets/repository/listing.h"

namespace accelerate::detail {

/// Returns patterns by split for the files below the folder `base`; "" means all files. Kinds of
/// patterns are tried in turn, and the first kind that finds a file is returned. Throws DataError
/// if there are no files, or if the name of a shard does not tell its split. Source:
/// _get_data_files_patterns() of datasets/data_files.py.
[[nodiscard]] RepositorySplits default_patterns(const ListedFiles& files, const std::string& base);

}  // namespace accelerate::detail
