#include "accelerate/formats/torch_archive/zip_directory.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "accelerate/base/bytes.h"
#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/utf8.h"
#include "accelerate/formats/safetensors/safetensors_header.h"

namespace accelerate::detail {
namespace {

constexpr std::uint64_t kMostEntries = 1'000'000;
constexpr std::uint16_t kAll16 = 0xFFFF;  // Means: the number is in the zip64 record.
constexpr std::uint32_t kAll32 = 0xFFFFFFFF;

[[noreturn]] void refuse_zip(const std::string& why) {
  throw CheckpointError("as a zip archive it is damaged: " + why, error_name::kWeightsDamaged);
}

// Reads little-endian numbers of fixed width, never beyond the end.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : rest_(bytes) {}

  std::string_view take(std::uint64_t size) {
    if (size > rest_.size())
      refuse_zip("a table ends too early, perhaps of an interrupted download");
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  template <typename Number>
  Number number() {
    const std::string_view digits = take(sizeof(Number));
    std::uint64_t value = 0;
    for (std::size_t i = sizeof(Number); i-- > 0;) {
      value = value << 8 | static_cast<unsigned char>(digits[i]);
    }
    return static_cast<Number>(value);
  }
  std::uint16_t u16() { return number<std::uint16_t>(); }
  std::uint32_t u32() { return number<std::uint32_t>(); }
  std::uint64_t u64() { return number<std::uint64_t>(); }
  [[nodiscard]] std::size_t left() const { return rest_.size(); }

 private:
  std::string_view rest_;
};

// Returns `size` bytes from `offset` on. Throws CheckpointError if they are not all there.
std::string_view part(std::string_view file, std::uint64_t offset, std::uint64_t size) {
  if (offset > file.size() || size > file.size() - offset) {
    refuse_zip("a table points beyond the end of the file");
  }
  return file.substr(offset, size);
}

struct Directory {
  std::uint64_t entries = 0, size = 0, offset = 0;
  std::uint64_t end = 0;  // Where its end record begins.
};

// Returns the offset of the last record. A comment of up to 64 KiB may follow it, but must end with
// the file.
std::uint64_t find_end_record(std::string_view file) {
  constexpr std::size_t kSize = 22, kMostComment = 65535;
  if (file.size() < kSize) refuse_zip("it is too short");
  const std::size_t first = file.size() - std::min(file.size(), kSize + kMostComment);
  for (std::size_t at = file.size() - kSize + 1; at-- > first;) {
    if (!file.substr(at).starts_with("PK\5\6")) continue;
    if (Fields(file.substr(at + 20)).u16() == file.size() - at - kSize) return at;
  }
  refuse_zip(
      "its table of contents is missing; it is cut short, perhaps by an interrupted download");
}

Directory read_zip64_record(std::string_view file, std::uint64_t locator) {
  Fields where(part(file, locator + 4, 16));
  const std::uint32_t disk = where.u32();
  const std::uint64_t at = where.u64();
  if (disk != 0 || where.u32() > 1) refuse_zip("it is one part of several");
  if (at > locator || locator - at != 56 || !part(file, at, 56).starts_with("PK\6\6")) {
    refuse_zip("its zip64 record is not where it should be");
  }
  Fields fields(part(file, at + 16, 40));
  if (fields.u32() != 0 || fields.u32() != 0) refuse_zip("it is one part of several");
  Directory found{.end = at};
  const std::uint64_t entries_here = fields.u64();
  found.entries = fields.u64();
  found.size = fields.u64();
  found.offset = fields.u64();
  if (entries_here != found.entries) refuse_zip("it is one part of several");
  return found;
}

// The plain and the zip64 record must not contradict each other: two readers would see two
// archives.
template <typename Number>
void check_same(Number plain, Number all, std::uint64_t wide) {
  if (plain != all && plain != wide) refuse_zip("its two tables of contents contradict each other");
}

Directory find_directory(std::string_view file) {
  const std::uint64_t end = find_end_record(file);
  Fields fields(part(file, end + 4, 16));
  const std::uint16_t disk = fields.u16(), first_disk = fields.u16(), here = fields.u16();
  const std::uint16_t entries = fields.u16();
  const std::uint32_t size = fields.u32(), offset = fields.u32();
  const bool is_zip64 = end >= 20 && file.substr(end - 20).starts_with("PK\6\7");
  if (is_zip64) {
    const Directory wide = read_zip64_record(file, end - 20);
    check_same(entries, kAll16, wide.entries);
    check_same(size, kAll32, wide.size);
    check_same(offset, kAll32, wide.offset);
    return wide;
  }
  if (disk != 0 || first_disk != 0 || here != entries) refuse_zip("it is one part of several");
  return {entries, size, offset, end};
}

struct RawEntry {
  std::string name = {};
  std::uint16_t method = 0;
  std::uint64_t size = 0, packed_size = 0;
  std::uint64_t header = 0;  // Where its local header begins.
  std::uint64_t data = 0;
};

// Reads the sizes that do not fit into 32 bits from an extra field, which has them in this order.
void read_zip64_field(std::string_view extra, RawEntry& entry, bool size, bool packed,
                      bool header) {
  Fields fields(extra);
  while (fields.left() >= 4) {
    const std::uint16_t id = fields.u16();
    Fields body(fields.take(fields.u16()));
    if (id != 1) continue;
    if (size) entry.size = body.u64();
    if (packed) entry.packed_size = body.u64();
    if (header) entry.header = body.u64();
    return;
  }
  if (size || packed || header)
    refuse_zip("the zip64 sizes of " + printable(entry.name) + " are missing");
}

void check_flags(const std::string& name, std::uint16_t flags) {
  if ((flags & 1) != 0) throw CheckpointError("its entry " + printable(name) + " is encrypted");
}

RawEntry read_entry(Fields& fields) {
  if (fields.take(4) != "PK\1\2") refuse_zip("an entry of its table of contents has no signature");
  fields.take(4);  // Versions.
  const std::uint16_t flags = fields.u16();
  RawEntry entry{.method = fields.u16()};
  fields.take(8);  // Time, date, checksum.
  const std::uint32_t packed = fields.u32(), size = fields.u32();
  const std::uint16_t name = fields.u16(), extra = fields.u16(), comment = fields.u16();
  fields.take(8);  // Disk, attributes.
  const std::uint32_t header = fields.u32();
  entry.name = fields.take(name);
  if (!is_utf8(entry.name)) refuse_zip("a name is not UTF-8");
  check_flags(entry.name, flags);
  entry.packed_size = packed;
  entry.size = size;
  entry.header = header;
  read_zip64_field(fields.take(extra), entry, size == kAll32, packed == kAll32, header == kAll32);
  fields.take(comment);
  if (entry.method == 0 && entry.size != entry.packed_size)
    refuse_zip("the sizes of " + printable(entry.name) + " differ");
  return entry;
}

// Finds the data behind the local header, which must agree with the table of contents.
void find_data(std::string_view file, RawEntry& entry, std::uint64_t directory) {
  Fields fields(part(file, entry.header, 30));
  if (fields.take(4) != "PK\3\4")
    refuse_zip("the header of " + printable(entry.name) + " is missing");
  fields.take(2);
  check_flags(entry.name, fields.u16());
  if (fields.u16() != entry.method)
    refuse_zip("the methods of " + printable(entry.name) + " differ");
  fields.take(16);
  const std::uint16_t name = fields.u16(), extra = fields.u16();
  if (part(file, entry.header + 30, name) != entry.name) {
    refuse_zip(printable(entry.name) + " has another name in its own header");
  }
  entry.data = entry.header + 30 + name + extra;
  if (entry.data > directory || entry.packed_size > directory - entry.data) {
    refuse_zip(printable(entry.name) + " leaves the file");
  }
}

void check_apart(std::vector<RawEntry>& entries) {
  std::ranges::sort(entries, {}, &RawEntry::header);
  if (!entries.empty() && entries.front().header != 0)
    refuse_zip("something else precedes its entries");
  std::uint64_t end = 0;
  for (const RawEntry& entry : entries) {
    if (entry.header < end) refuse_zip(printable(entry.name) + " overlaps the entry before it");
    end = entry.data + entry.packed_size;
  }
  std::ranges::sort(entries, {}, &RawEntry::name);
  const auto twice = std::ranges::adjacent_find(entries, {}, &RawEntry::name);
  if (twice != entries.end()) refuse_zip("the name " + printable(twice->name) + " appears twice");
}

std::vector<RawEntry> read_entries(std::string_view file) {
  const Directory directory = find_directory(file);
  if (directory.entries > kMostEntries) {
    throw CheckpointError("it has " + std::to_string(directory.entries) + " entries, at most " +
                          std::to_string(kMostEntries) + " are allowed");
  }
  if (directory.offset > directory.end || directory.size != directory.end - directory.offset) {
    refuse_zip("its table of contents is not where it should be");
  }
  Fields fields(part(file, directory.offset, directory.size));
  std::vector<RawEntry> entries;
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    entries.push_back(read_entry(fields));
    find_data(file, entries.back(), directory.offset);
  }
  if (fields.left() != 0) refuse_zip("its table of contents is longer than its entries");
  return entries;
}

}  // namespace

std::vector<ZipEntry> read_zip_directory(std::span<const std::byte> file) {
  const std::string_view text = byte_text(file);
  std::vector<RawEntry> raw = read_entries(text);
  check_apart(raw);
  std::vector<ZipEntry> entries;
  entries.reserve(raw.size());
  for (RawEntry& entry : raw) {
    entries.push_back(
        {std::move(entry.name), file.subspan(entry.data, entry.packed_size), entry.method != 0});
  }
  return entries;
}

}  // namespace accelerate::detail
