// Building archives of torch.save byte by byte, for the tests of their reader.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/formats/torch_archive/torch_archive.h"
#include "tests/formats/safetensors_support.h"

namespace accelerate::testing {

/// `width` bytes, lowest first.
inline std::string number(std::uint64_t value, std::size_t width) {
  std::string bytes = little_endian(value);
  bytes.resize(width);
  return bytes;
}

/// An entry of a zip archive; what is not given is as it should be.
struct ZipPart {
  std::string name, data;
  std::uint16_t flags = 0x808, method = 0;
  std::string local_name = {};           ///< In its own header, when another.
  std::uint64_t claimed_size = ~0ULL;    ///< In the table of contents, when another.
  std::uint64_t claimed_offset = ~0ULL;  ///< Likewise.
  std::string extra = {};                ///< The extra field of the table of contents.
};

inline std::string local_header(const ZipPart& part) {
  const std::string& name = part.local_name.empty() ? part.name : part.local_name;
  return "PK\3\4" + number(20, 2) + number(part.flags, 2) + number(part.method, 2) + number(0, 16) +
         number(name.size(), 2) + number(0, 2) + name;
}

inline std::string table_entry(const ZipPart& part, std::uint64_t offset) {
  const std::uint64_t size = part.claimed_size == ~0ULL ? part.data.size() : part.claimed_size;
  return "PK\1\2" + number(20, 4) + number(part.flags, 2) + number(part.method, 2) + number(0, 8) +
         number(size, 4) + number(size, 4) + number(part.name.size(), 2) +
         number(part.extra.size(), 2) + number(0, 2) + number(0, 8) +
         number(part.claimed_offset == ~0ULL ? offset : part.claimed_offset, 4) + part.name +
         part.extra;
}

inline std::string end_record(std::uint64_t entries, std::uint64_t size, std::uint64_t offset) {
  return "PK\5\6" + number(0, 4) + number(entries, 2) + number(entries, 2) + number(size, 4) +
         number(offset, 4) + number(0, 2);
}

/// The zip64 record and its locator, for a table that ends at `at`.
inline std::string zip64_records(std::uint64_t entries, std::uint64_t size, std::uint64_t offset) {
  const std::uint64_t at = offset + size;
  return "PK\6\6" + number(44, 8) + number(45, 4) + number(0, 8) + number(entries, 8) +
         number(entries, 8) + number(size, 8) + number(offset, 8) + "PK\6\7" + number(0, 4) +
         number(at, 8) + number(1, 4);
}

struct ZipTables {
  std::string entries, table;
};

inline ZipTables zip_tables(const std::vector<ZipPart>& parts) {
  ZipTables zip;
  for (const ZipPart& part : parts) {
    zip.table += table_entry(part, zip.entries.size());
    zip.entries += local_header(part) + part.data;
  }
  return zip;
}

inline std::string zip_of(const std::vector<ZipPart>& parts) {
  const ZipTables zip = zip_tables(parts);
  return zip.entries + zip.table + end_record(parts.size(), zip.table.size(), zip.entries.size());
}

/// A pickle of protocol 2 of these operations.
inline std::string pickle(const std::string& operations) {
  return "\x80\x02" + operations + ".";
}

inline std::string text(const std::string& value) {
  return "X" + number(value.size(), 4) + value;
}

/// An archive of torch.save with this pickle and storages "0", "1", ….
inline std::string archive_of(const std::string& pickle_bytes,
                              const std::vector<std::string>& storages = {}) {
  std::vector<ZipPart> parts = {{"archive/data.pkl", pickle_bytes}};
  for (std::size_t i = 0; i < storages.size(); ++i) {
    parts.push_back({"archive/data/" + std::to_string(i), storages[i]});
  }
  return zip_of(parts);
}

/// The operations that give a tensor of `type`Storage "0" with `elements` elements.
inline std::string tensor_operations(const std::string& offset, const std::string& shape,
                                     const std::string& stride, const std::string& elements,
                                     const std::string& type = "Float") {
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + "ctorch\n" + type +
         "Storage\n" + text("0") + text("cpu") + elements + "tQ" + offset + shape + stride +
         "\x89" + "ccollections\nOrderedDict\n)RtR";
}

inline TorchArchive open_archive(std::string_view bytes) {
  OneFile files(bytes);
  return TorchArchive::open("hostile.pt", files);
}

/// The message with which an archive is refused, "" when it is taken.
inline std::string archive_refusal(std::string_view bytes) {
  try {
    (void)open_archive(bytes);
    return "";
  } catch (const CheckpointError& error) {
    return error.what();
  }
}

}  // namespace accelerate::testing
