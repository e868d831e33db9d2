// Tables as files of the cache: written chunk by chunk, mapped back without reading. docs/formats/
// tables.md has the layout.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "accelerate/datasets/storage/table_builder.h"

namespace accelerate::detail {

/// Writes chunks to a new file beside `path`; finish() puts it in place and maps it. Without
/// finish() nothing stays. Without a `fingerprint` the table gets one of its content. Throws
/// DataError, with the file, when the disk is full or the folder cannot be written.
[[nodiscard]] std::unique_ptr<ChunkSink> sink_in_file(const std::filesystem::path& path,
                                                      std::string fingerprint = {});

/// Maps a table. Throws FileError for what cannot be opened, DataError for a damaged file: every
/// place in it is checked, what lies at the places is not read. Cost: less than a millisecond a
/// hundred chunks.
[[nodiscard]] std::shared_ptr<const Table> open_table(const std::filesystem::path& path);

/// As open_table(), but nullptr for a file that is not there, and, with a warning, for a damaged
/// one.
[[nodiscard]] std::shared_ptr<const Table> open_cached_table(const std::filesystem::path& path);

/// A feature as JSON text, and back.
[[nodiscard]] std::string write_features(const Features& features);
[[nodiscard]] Features read_features(const std::string& text);

}  // namespace accelerate::detail
