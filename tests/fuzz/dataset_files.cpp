// Files of datasets: CSV, JSON, lines and tables of the cache are read to the end, or refused with
// an Error. The first byte says as which.
#include <sys/mman.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "accelerate/base/descriptor.h"
#include "accelerate/base/error.h"
#include "accelerate/transformers/datasets/readers/chunk_reader.h"
#include "accelerate/transformers/datasets/storage/column_builder.h"
#include "accelerate/transformers/datasets/storage/table_file.h"

namespace {

using namespace accelerate;

void read_all(const detail::ColumnChunk& column) {
  for (std::size_t row = 0; row < column.size(); ++row) (void)column.at(row).description();
}

void read_file(const std::filesystem::path& file, unsigned format) {
  using namespace accelerate::detail;
  const ReaderOptions options{
      .csv = {.has_header = format != 1,
              .column_names =
                  format == 1 ? std::vector<std::string>{"a", "b"} : std::vector<std::string>{}},
      .json = {.field = format == 3 ? "data" : ""},
      .features = {},
      .rows_in_batch = 3};
  const auto reader = format < 2   ? read_csv(file, options)
                      : format < 4 ? read_json(file, options)
                                   : read_text(file, options);
  while (const auto chunk = reader->next()) {
    for (const ColumnChunk& column : chunk->columns) read_all(column);
  }
}

void read_table(const std::filesystem::path& file) {
  const auto table = detail::open_table(file);
  for (const detail::Chunk& chunk : table->chunks()) {
    // A damaged table may claim any number of missing values, which need no bytes.
    if (chunk.rows > 100'000) continue;
    for (std::size_t i = 0; i < chunk.columns.size(); ++i) {
      read_all(chunk.columns[i]);
      detail::ColumnBuilder builder(table->features()[i].second);
      builder.append(chunk.columns[i], 0, chunk.rows);
    }
  }
}

// Puts the checksum right, so that what lies behind it is reached.
void seal(std::string& table) {
  constexpr std::size_t kTrailer = 32;
  if (table.size() < kTrailer) return;
  char* const trailer = table.data() + table.size() - kTrailer;
  std::array<std::uint64_t, 3> words{};
  std::memcpy(words.data(), trailer, sizeof(words));
  words[1] = table.size() - kTrailer - std::min<std::uint64_t>(words[0], table.size() - kTrailer);
  if (words[0] <= table.size() - kTrailer)
    words[2] = XXH3_64bits(table.data() + words[0], words[1]);
  std::memcpy(trailer, words.data(), sizeof(words));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const Descriptor memory(memfd_create("rows", MFD_CLOEXEC));
  const unsigned format = data[0] % 6;
  std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (format == 5) seal(bytes);
  if (write_fully(memory.get(), bytes) != 0) throw std::runtime_error("no memory for a file");
  const std::filesystem::path file = "/proc/self/fd/" + std::to_string(memory.get());
  try {
    if (format == 5) {
      read_table(file);
    } else {
      read_file(file, format);
    }
  } catch (const Error&) {
  }
  return 0;
}
