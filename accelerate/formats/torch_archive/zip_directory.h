// Reads the table of contents of a zip archive. Part of formats/torch_archive.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace accelerate::detail {

struct ZipEntry {
  std::string name;
  std::span<const std::byte> bytes;  ///< Bytes in the archive.
  bool compressed = false;           ///< If true, `bytes` are not the content.
};

/// Returns the entries of an archive that fills `file` from its first byte to its last, sorted by
/// name. Reads zip64 too. Throws CheckpointError, whose message is a clause, for:
/// - encrypted entries, or a name that appears twice,
/// - entries that overlap or leave the file,
/// - tables that contradict each other, or more than 1 000 000 entries.
/// Checksums are not compared. Cost: the tables are read, the data is not. Source: APPNOTE.TXT
/// 6.3.10.
[[nodiscard]] std::vector<ZipEntry> read_zip_directory(std::span<const std::byte> file);

}  // namespace accelerate::detail
