// Collects the rows of a dataset into row groups, for the library that writes them
// (parquet_write_plugin.cpp).
#include "accelerate/transformers/datasets/writers/parquet_writer.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/text.h"
#include "accelerate/formats/documents/json.h"
#include "accelerate/transformers/datasets/dataset.h"
#include "accelerate/transformers/datasets/readers/parquet_library.h"
#include "accelerate/transformers/datasets/storage/column_builder.h"
#include "accelerate/transformers/datasets/storage/column_table.h"

namespace accelerate::detail {
namespace {

constexpr std::size_t kGroupBytes = 16 << 20;
/// Arrow's default limit for the rows of a row group.
constexpr std::size_t kGroupRows = 1 << 20;

std::unique_ptr<ChunkWriter> parquet_writer(const std::filesystem::path& file,
                                            const WriterOptions& options, WritableFile& out) {
  using MakeWriter = ChunkWriter* (*)(const WriterOptions*, WritableFile*);
  const auto make =
      reinterpret_cast<MakeWriter>(parquet_function("accelerate_parquet_writer", "write", file));
  return std::unique_ptr<ChunkWriter>(make(&options, &out));
}

// Estimates the bytes that rows [first, first + count) take in a ColumnBuilder.
std::size_t bytes_of(const ColumnChunk& column, std::size_t first, std::size_t count) {
  using Kind = Feature::Kind;
  if (count == 0 || column.kind() == Kind::null) return 0;
  if (column.kind() == Kind::boolean) return count;
  if (column.kind() != Kind::string && column.kind() != Kind::list) return count * 8;
  const std::size_t begin = column.range(first).begin, end = column.range(first + count - 1).end;
  const std::size_t values = end < begin ? 0 : end - begin;  // end < begin in a damaged file.
  return count * 8 + (column.kind() == Kind::string
                          ? values
                          : bytes_of(*column.parts().entries, begin, values));
}

// Collects rows of a dataset, in stretches that are consecutive in its table.
class RowGroups {
 public:
  RowGroups(const Dataset& dataset, ChunkWriter& writer) : dataset_(dataset), writer_(writer) {
    for (const auto& [name, feature] : dataset.features()) builders_.emplace_back(feature);
  }

  /// Adds rows from `row` on: at most `most`, and as many as the row group has room for. Returns
  /// the number of added rows, which is above 0.
  std::size_t add(std::size_t row, std::size_t most) {
    const Table& table = *dataset_.table();
    const auto place = table.place_of(table_row(row));
    const Chunk& chunk = table.chunks()[place.chunk];
    std::size_t count = stretch(row, std::min({most, chunk.rows - place.row, kGroupRows - rows_}));
    while (count > 1 && bytes_ + bytes_of(chunk, place.row, count) > kGroupBytes) count /= 2;
    bytes_ += bytes_of(chunk, place.row, count);
    for (std::size_t i = 0; i < builders_.size(); ++i)
      builders_[i].append(column(chunk, i), place.row, count);
    rows_ += count;
    if (rows_ >= kGroupRows || bytes_ >= kGroupBytes) flush();
    return count;
  }

  void flush() {
    if (rows_ == 0) return;
    std::vector<ColumnChunk> columns;
    for (ColumnBuilder& builder : builders_) columns.push_back(builder.finish());
    writer_.add(columns);
    rows_ = bytes_ = 0;
  }

 private:
  [[nodiscard]] std::size_t table_row(std::size_t row) const {
    return dataset_.rows() ? (*dataset_.rows())[row] : row;
  }

  // Returns how many rows from `row` on are consecutive in the table, at most `most`.
  [[nodiscard]] std::size_t stretch(std::size_t row, std::size_t most) const {
    if (!dataset_.rows()) return most;
    std::size_t count = 1;
    while (count < most && table_row(row + count) == table_row(row) + count) ++count;
    return count;
  }

  [[nodiscard]] const ColumnChunk& column(const Chunk& chunk, std::size_t i) const {
    return chunk.columns[dataset_.table_columns()[i]];
  }

  [[nodiscard]] std::size_t bytes_of(const Chunk& chunk, std::size_t first,
                                     std::size_t count) const {
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < builders_.size(); ++i)
      bytes += detail::bytes_of(column(chunk, i), first, count);
    return bytes;
  }

  const Dataset& dataset_;
  ChunkWriter& writer_;
  std::vector<ColumnBuilder> builders_;
  std::size_t rows_ = 0, bytes_ = 0;
};

void check_rows(const Dataset& dataset, std::size_t first_row, std::size_t rows) {
  if (first_row <= dataset.size() && rows <= dataset.size() - first_row) return;
  throw UsageError("there are not " + std::to_string(rows) + " rows from row " +
                   std::to_string(first_row) + " on; the dataset has " +
                   std::to_string(dataset.size()));
}

std::string description_of(const Feature& feature) {
  if (feature.kind() == Feature::Kind::list)
    return R"({"feature": )" + description_of(feature.element()) + R"(, "_type": "List"})";
  if (!feature.is_class_label())
    return R"({"dtype": )" + ascii_json_string(feature.description()) + R"(, "_type": "Value"})";
  std::vector<std::string> names;
  for (const std::string& name : feature.names()) names.push_back(ascii_json_string(name));
  return R"({"names": [)" + join(names, ", ") + R"(], "_type": "ClassLabel"})";
}

}  // namespace

void write_parquet(const Dataset& dataset, std::size_t first_row, std::size_t rows,
                   const std::filesystem::path& file) {
  check_rows(dataset, first_row, rows);
  const WriterOptions options{.features = dataset.features(),
                              .metadata = metadata_of(dataset.features())};
  AtomicFile whole(real_file_system(), file);
  const auto writer = parquet_writer(file, options, whole.file());
  RowGroups groups(dataset, *writer);
  for (std::size_t row = 0; row < rows;) row += groups.add(first_row + row, rows - row);
  groups.flush();
  writer->finish();
  whole.commit();
}

std::string metadata_of(const Features& features) {
  std::vector<std::string> columns;
  for (const auto& [name, feature] : features)
    columns.push_back(ascii_json_string(name) + ": " + description_of(feature));
  return R"({"info": {"features": {)" + join(columns, ", ") + "}}}";
}

}  // namespace accelerate::detail

namespace accelerate {

void Dataset::to_parquet(const std::filesystem::path& file) const {
  detail::write_parquet(*this, 0, size(), file);
}

}  // namespace accelerate
