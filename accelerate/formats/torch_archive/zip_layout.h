// Lays out a zip archive of stored entries whose sizes are known, as torch.save does. Part of
// formats/torch_archive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace accelerate::detail {

/// An entry to be written.
struct ZipItem {
  std::string name;
  std::uint64_t size_bytes = 0;
};

/// Says where each entry lies and returns what stands around the entries' data. An archive is, for
/// each entry, header(), the data and trailer(); then the directory(). Data begins at a multiple of
/// 64 bytes, so that a reader may map it. Checksums stand behind the data, so that the data may be
/// written before they are known. Entries and archives beyond 4 GiB are zip64. Source: APPNOTE.TXT
/// 6.3.10.
class ZipLayout {
 public:
  explicit ZipLayout(std::vector<ZipItem> items);

  [[nodiscard]] const std::vector<ZipItem>& items() const { return items_; }
  /// Returns the size of the whole archive.
  [[nodiscard]] std::uint64_t file_bytes() const;
  [[nodiscard]] std::string header(std::size_t item) const;
  [[nodiscard]] std::string trailer(std::size_t item, std::uint32_t crc) const;
  /// Returns the end of the archive: its table of contents. `crcs`: one checksum an item.
  [[nodiscard]] std::string directory(std::span<const std::uint32_t> crcs) const;

 private:
  std::vector<ZipItem> items_;
  std::vector<std::uint64_t> offsets_;  // Of the headers; then of the table of contents.
};

}  // namespace accelerate::detail
