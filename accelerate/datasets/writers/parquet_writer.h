// Datasets as Parquet files.
#pragma once

#include <cstddef>
#include <filesystem>

namespace accelerate {
class Dataset;

namespace detail {

/// Writes `rows` rows of `dataset` from `first_row` on, with all columns, as Python `datasets` 5
/// does: Snappy, pages cut by content, the features beside the schema. The file appears whole or
/// not at all; it replaces another of its name. Throws UsageError for rows behind the end,
/// FileError for a folder that is not there or a full disk, ConfigError where there is no Arrow,
/// DataError for a row with more than 2 GiB of text or 2^31 entries in a column. Cost: a row group
/// in memory, of about 16 MiB before it is packed.
void write_parquet(const Dataset& dataset, std::size_t first_row, std::size_t rows,
                   const std::filesystem::path& file);

}  // namespace detail
}  // namespace accelerate
