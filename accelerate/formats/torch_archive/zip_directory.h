// The table of contents of a zip archive. Part of formats/torch_archive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace accelerate::detail {

struct ZipEntry {
  std::string name;
  std::span<const std::byte> bytes;  ///< In the archive.
  bool compressed = false;           ///< By whatever method: `bytes` are not the content.
};

/// The entries of an archive that fills `file` from its first byte to its last, sorted by name;
/// zip64 too. Throws CheckpointError whose message is a clause: encrypted entries, a name twice,
/// entries that overlap or leave the file, tables that contradict each other, more than 1 000 000
/// entries. Checksums are not compared. Cost: the tables are read, the data is not. Source:
/// APPNOTE.TXT 6.3.10.
[[nodiscard]] std::vector<ZipEntry> read_zip_directory(std::span<const std::byte> file);

}  // namespace accelerate::detail
