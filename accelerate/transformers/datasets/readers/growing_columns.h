// Columns whose types are found in their first rows.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/transformers/datasets/features.h"
#include "accelerate/transformers/datasets/row.h"
#include "accelerate/transformers/datasets/storage/column_builder.h"
#include "accelerate/transformers/datasets/storage/column_table.h"

namespace accelerate::detail {

/// Returns the features that hold all of `rows`; rows may lack values. `places` says where each row
/// is, for messages: "a.json, line 3". Throws DataError when two rows have values of incompatible
/// types.
[[nodiscard]] Features features_of(const std::vector<Row>& rows,
                                   const std::vector<std::string>& places);

/// Returns `rows` as columns of `features`. A value that a row lacks is missing. Throws DataError
/// for a value of another type, and for a name that is not a feature.
[[nodiscard]] Chunk chunk_of(const std::vector<Row>& rows, const std::vector<std::string>& places,
                             const Features& features);

}  // namespace accelerate::detail
