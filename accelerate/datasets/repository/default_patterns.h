// The patterns that Python's `datasets` tries on a repository whose card names no files.
#pragma once

#include <string>

#include "accelerate/datasets/repository/listing.h"
#include "accelerate/datasets/repository_files.h"

namespace accelerate::detail {

/// Tells whether a split may have this name: words with dots between them. Characters that are not
/// ASCII count as letters.
[[nodiscard]] bool is_split_name(std::string_view name);

/// Returns the patterns by split for the files below the folder `base`, "" for all: those of the
/// first kind that finds a file. Throws DataError if there is no file at all, or if a shard has a
/// name from which no split can be told.
/// Source: _get_data_files_patterns() of datasets/data_files.py.
[[nodiscard]] RepositorySplits default_patterns(const RepositoryListing& files,
                                                const std::string& base);

}  // namespace accelerate::detail
