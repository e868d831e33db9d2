#include "accelerate/formats/torch_archive/zip_layout.h"

#include <utility>

#include "accelerate/base/bytes.h"

namespace accelerate::detail {
namespace {

constexpr std::uint64_t kAlignment = 64;
constexpr std::uint64_t kZip32Limit = 0xFFFFFFFF;  // Also stands for "see the zip64 field".
constexpr std::uint64_t kZip32Entries = 0xFFFF;
constexpr std::uint16_t kPlainVersion = 20, kZip64Version = 45;
constexpr std::uint16_t kFlags = 0x0808;  // Checksum behind the data; names are UTF-8.
constexpr std::uint64_t kLocalHeaderBytes = 30;

template <typename... Integers>
std::string packed(Integers... values) {
  std::string bytes;
  (append_little_endian(bytes, values), ...);
  return bytes;
}

std::uint16_t u16(std::uint64_t value) {
  return static_cast<std::uint16_t>(value < kZip32Entries ? value : kZip32Entries);
}

std::uint32_t u32(std::uint64_t value) {
  return static_cast<std::uint32_t>(value < kZip32Limit ? value : kZip32Limit);
}

bool is_large(std::uint64_t value) {
  return value >= kZip32Limit;
}

// The zip64 field of an entry's own header, which has both sizes whatever they are.
std::string large_sizes(std::uint64_t size) {
  return is_large(size) ? packed(std::uint16_t{1}, std::uint16_t{16}, size, size) : std::string{};
}

// Returns the extra fields of a header at `offset`. The last one is padding behind which the data
// is aligned, in the field that torch.save uses.
std::string extra_fields(const ZipItem& item, std::uint64_t offset) {
  std::string extra = large_sizes(item.size_bytes);
  const std::uint64_t before = offset + kLocalHeaderBytes + item.name.size() + extra.size();
  constexpr std::uint64_t kFieldHeader = 4;
  std::uint64_t padding = (kAlignment - before % kAlignment) % kAlignment;
  if (padding == 0) return extra;
  if (padding < kFieldHeader) padding += kAlignment;
  return extra + "FB" + packed(static_cast<std::uint16_t>(padding - kFieldHeader)) +
         std::string(padding - kFieldHeader, 'Z');
}

std::string table_entry(const ZipItem& item, std::uint64_t offset, std::uint32_t crc) {
  std::string large;
  if (is_large(item.size_bytes)) large += packed(item.size_bytes, item.size_bytes);
  if (is_large(offset)) large += packed(offset);
  const std::uint16_t version = large.empty() ? kPlainVersion : kZip64Version;
  if (!large.empty()) large = packed(std::uint16_t{1}, u16(large.size())) + large;
  return "PK\1\2" + packed(version, version, kFlags, std::uint16_t{0}, std::uint32_t{0}, crc) +
         packed(u32(item.size_bytes), u32(item.size_bytes), u16(item.name.size())) +
         packed(u16(large.size()), std::uint16_t{0}, std::uint16_t{0}, std::uint16_t{0}) +
         packed(std::uint32_t{0}, u32(offset)) + item.name + large;
}

std::string end_records(std::uint64_t count, std::uint64_t table_bytes, std::uint64_t offset) {
  std::string end;
  if (count >= kZip32Entries || is_large(table_bytes) || is_large(offset)) {
    constexpr std::uint64_t kBytesThatFollow = 44;
    end = "PK\6\6" + packed(kBytesThatFollow, kZip64Version, kZip64Version, std::uint64_t{0}) +
          packed(count, count, table_bytes, offset) + "PK\6\7" +
          packed(std::uint32_t{0}, offset + table_bytes, std::uint32_t{1});
  }
  return end + "PK\5\6" + packed(std::uint32_t{0}, u16(count), u16(count)) +
         packed(u32(table_bytes), u32(offset), std::uint16_t{0});
}

}  // namespace

ZipLayout::ZipLayout(std::vector<ZipItem> items) : items_(std::move(items)) {
  offsets_.push_back(0);
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const std::uint64_t around = header(i).size() + trailer(i, 0).size();
    offsets_.push_back(offsets_[i] + around + items_[i].size_bytes);
  }
}

std::uint64_t ZipLayout::file_bytes() const {
  const std::vector<std::uint32_t> unknown(items_.size());
  return offsets_.back() + directory(unknown).size();
}

std::string ZipLayout::header(std::size_t item) const {
  const ZipItem& entry = items_[item];
  const std::string extra = extra_fields(entry, offsets_[item]);
  const bool large = is_large(entry.size_bytes);
  const std::uint32_t size = large ? u32(entry.size_bytes) : 0;
  return "PK\3\4" + packed(large ? kZip64Version : kPlainVersion, kFlags, std::uint16_t{0}) +
         packed(std::uint32_t{0}, std::uint32_t{0}, size, size, u16(entry.name.size())) +
         packed(u16(extra.size())) + entry.name + extra;
}

std::string ZipLayout::trailer(std::size_t item, std::uint32_t crc) const {
  const std::uint64_t size = items_[item].size_bytes;
  const std::string sizes = is_large(size) ? packed(size, size) : packed(u32(size), u32(size));
  return "PK\7\10" + packed(crc) + sizes;
}

std::string ZipLayout::directory(std::span<const std::uint32_t> crcs) const {
  std::string table;
  for (std::size_t i = 0; i < items_.size(); ++i)
    table += table_entry(items_[i], offsets_[i], crcs[i]);
  return table + end_records(items_.size(), table.size(), offsets_.back());
}

}  // namespace accelerate::detail
