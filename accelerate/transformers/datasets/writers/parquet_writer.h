// Writes datasets as Parquet files.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

#include "accelerate/transformers/datasets/features.h"

namespace accelerate::detail {

// Describes features as Python `datasets` does.

/// Returns, byte for byte, the JSON that Python `datasets` 5 keeps under the key "huggingface" of
/// an Arrow schema: {"info": {"features": {"text": {"dtype": "string", "_type": "Value"}}}}.
[[nodiscard]] std::string metadata_of(const Features& features);

}  // namespace accelerate::detail

namespace accelerate {
class Dataset;

namespace detail {

/// Writes `rows` rows of `dataset` from `first_row` on, with all columns, as Python `datasets` 5
/// does: Snappy compression, page boundaries that depend on content, features in the metadata of
/// the schema. The file appears whole or not at all, and replaces an existing file. Throws
/// UsageError for rows that do not exist, FileError for a missing folder or a full disk. Throws
/// ConfigError in a build without Arrow. Throws DataError when a column has a row of 2^31 or more
/// bytes of text or list entries. Cost: memory for one row group, about 16 MiB before compression.
void write_parquet(const Dataset& dataset, std::size_t first_row, std::size_t rows,
                   const std::filesystem::path& file);

}  // namespace detail
}  // namespace accelerate
