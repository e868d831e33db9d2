// Keeps tables as files of the cache. Tables are written chunk by chunk and mapped back without
// reading. Layout: docs/formats/tables.md.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "accelerate/transformers/datasets/storage/table_builder.h"

namespace accelerate::detail {

/// Returns a sink that writes chunks to a new file beside `path`. finish() moves the file to `path`
/// and maps it. Without finish() nothing is left on the disk. If `fingerprint` is empty, the table
/// gets a fingerprint of its content. Throws DataError, with the file, when the disk is full or the
/// folder cannot be written.
[[nodiscard]] std::unique_ptr<ChunkSink> sink_in_file(const std::filesystem::path& path,
                                                      std::string fingerprint);

/// Maps a table. Throws FileError for a file that cannot be opened, DataError for a damaged file.
/// Checks all places in the file, but does not read the values there. Cost: less than a millisecond
/// for a hundred chunks.
[[nodiscard]] std::shared_ptr<const Table> open_table(const std::filesystem::path& path);

/// As open_table(), but returns nullptr if the file does not exist. If it is damaged, logs a
/// warning and returns nullptr.
[[nodiscard]] std::shared_ptr<const Table> open_cached_table(const std::filesystem::path& path);

/// Returns features as JSON text, for fingerprints.
[[nodiscard]] std::string write_features(const Features& features);

}  // namespace accelerate::detail
