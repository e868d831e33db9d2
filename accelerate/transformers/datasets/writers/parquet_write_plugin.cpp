// Writes Parquet through Arrow's C++ libraries. Part of libaccelerate_parquet.so;
// readers/parquet_read_plugin.cpp says why this is a separate library.
#include <arrow/api.h>
#include <arrow/buffer_builder.h>
#include <arrow/io/interfaces.h>
#include <parquet/arrow/writer.h>
#include <parquet/exception.h>
#include <parquet/properties.h>

#include <exception>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/transformers/datasets/writers/parquet_writer.h"

namespace accelerate::detail {
namespace {

using Kind = Feature::Kind;
using ArrowBuffer = std::shared_ptr<arrow::Buffer>;

// Throws for failures of Arrow that neither a file nor a row causes, such as a lack of memory.
void check(const arrow::Status& status) {
  if (!status.ok()) throw Error("Arrow cannot write Parquet: " + status.ToString());
}

// --- Columns as Arrow has them ---

std::shared_ptr<arrow::DataType> type_of(const Feature& feature) {
  switch (feature.kind()) {
    case Kind::null:
      return arrow::null();
    case Kind::integer:
      return arrow::int64();
    case Kind::floating:
      return arrow::float64();
    case Kind::boolean:
      return arrow::boolean();
    case Kind::string:
      return arrow::utf8();
    case Kind::list:
      return arrow::list(type_of(feature.element()));
  }
  return nullptr;
}

// Shares the memory of `buffer`. Arrow refuses a null pointer, also where there are no bytes.
ArrowBuffer shared(const Buffer& buffer) {
  static constexpr std::uint8_t kNone = 0;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(buffer.bytes.data());
  return std::make_shared<arrow::Buffer>(bytes != nullptr ? bytes : &kNone,
                                         static_cast<std::int64_t>(buffer.bytes.size()));
}

// Packs one bit a value: whether its byte is `one`, which is 0 or 1.
ArrowBuffer bits(const Buffer& buffer, std::uint8_t one) {
  arrow::TypedBufferBuilder<bool> builder;
  check(builder.Reserve(static_cast<std::int64_t>(buffer.bytes.size())));
  for (const std::uint8_t byte : buffer.as<std::uint8_t>())
    builder.UnsafeAppend((byte != 0) == (one != 0));
  ArrowBuffer bits;
  check(builder.Finish(&bits));
  return bits;
}

ArrowBuffer valid_bits(const ColumnChunk& column) {
  const Buffer& missing = column.parts().missing;
  return missing.bytes.empty() ? nullptr : bits(missing, 0);
}

// Python `datasets` writes 32-bit offsets.
ArrowBuffer offsets(const ColumnChunk& column) {
  const auto wide = column.parts().offsets.as<std::int64_t>();
  if (wide.back() > std::numeric_limits<std::int32_t>::max()) {
    throw DataError("a row of " + std::to_string(wide.back()) +
                    " bytes of text or entries of lists; allowed are less than 2^31");
  }
  arrow::TypedBufferBuilder<std::int32_t> builder;
  check(builder.Reserve(static_cast<std::int64_t>(wide.size())));
  for (const std::int64_t offset : wide) builder.UnsafeAppend(static_cast<std::int32_t>(offset));
  ArrowBuffer narrow;
  check(builder.Finish(&narrow));
  return narrow;
}

// Shares memory with `column` where it can.
std::shared_ptr<arrow::ArrayData> array_of(const ColumnChunk& column, const Feature& feature) {
  const auto& parts = column.parts();
  const auto rows = static_cast<std::int64_t>(parts.size);
  const auto array = [&](std::vector<ArrowBuffer> buffers) {
    return arrow::ArrayData::Make(type_of(feature), rows, std::move(buffers));
  };
  switch (feature.kind()) {
    case Kind::null:
      return arrow::ArrayData::Make(arrow::null(), rows, {nullptr}, rows);
    case Kind::boolean:
      return array({valid_bits(column), bits(parts.values, 1)});
    case Kind::string:
      return array({valid_bits(column), offsets(column), shared(parts.values)});
    case Kind::list: {
      auto list = array({valid_bits(column), offsets(column)});
      list->child_data.push_back(array_of(*parts.entries, feature.element()));
      return list;
    }
    default:
      return array({valid_bits(column), shared(parts.values)});
  }
}

// --- The file ---

// Lets Arrow write to a WritableFile. A failed write is kept for rethrow_failure() and reported to
// Arrow as a success: Arrow would end the process when it cannot write a page that it cut by
// content.
class FileStream : public arrow::io::OutputStream {
 public:
  explicit FileStream(WritableFile& file) : file_(file) {}

  using arrow::io::OutputStream::Write;
  arrow::Status Write(const void* data, std::int64_t size) override {
    place_ += size;
    if (failure_) return arrow::Status::OK();
    try {
      file_.write({static_cast<const char*>(data), static_cast<std::size_t>(size)});
    } catch (...) {
      failure_ = std::current_exception();
    }
    return arrow::Status::OK();
  }
  arrow::Status Close() override {
    is_closed_ = true;
    return arrow::Status::OK();
  }
  arrow::Result<std::int64_t> Tell() const override { return place_; }
  bool closed() const override { return is_closed_; }

  void rethrow_failure() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  WritableFile& file_;
  std::exception_ptr failure_;
  std::int64_t place_ = 0;
  bool is_closed_ = false;
};

// Makes page boundaries depend on the content, as Python `datasets` 5 does. The hub then stores
// only the changed parts of a file. Returns the text that describes this in the file; empty for
// Arrow before version 21, which does not have this feature.
template <typename Properties>
std::string cut_by_content(Properties& properties) {
  if constexpr (requires { properties.enable_content_defined_chunking(); }) {
    properties.enable_content_defined_chunking();
    properties.content_defined_chunking_options({256 * 1024, 1024 * 1024, 0});
    return R"({"min_chunk_size": 262144, "max_chunk_size": 1048576, "norm_level": 0})";
  } else {
    return "";
  }
}

class ParquetWriter : public ChunkWriter {
 public:
  ParquetWriter(const WriterOptions& options, WritableFile& file)
      : features_(options.features), stream_(std::make_shared<FileStream>(file)) {
    arrow::FieldVector fields;
    for (const auto& [name, feature] : features_)
      fields.push_back(arrow::field(name, type_of(feature)));
    schema_ = arrow::schema(std::move(fields),
                            arrow::key_value_metadata({"huggingface"}, {options.metadata}));
    guarded([&] { open(); });
  }

  void add(const std::vector<ColumnChunk>& columns) override {
    arrow::ArrayVector arrays;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const auto& [name, feature] = features_[i];
      try {
        arrays.push_back(arrow::MakeArray(array_of(columns[i], feature)));
      } catch (const DataError& error) {
        throw DataError("the column '" + name + "' has " + error.what());
      }
    }
    const auto table = arrow::Table::Make(schema_, std::move(arrays));
    guarded([&] { check(writer_->WriteTable(*table, table->num_rows())); });
  }

  void finish() override {
    guarded([&] {
      if (!chunking_.empty()) {
        check(writer_->AddKeyValueMetadata(
            arrow::key_value_metadata({"content_defined_chunking"}, {chunking_})));
      }
      check(writer_->Close());
    });
  }

 private:
  void open() {
    parquet::WriterProperties::Builder properties;
    properties.compression(parquet::Compression::SNAPPY)->enable_write_page_index();
    chunking_ = cut_by_content(properties);
    auto arrow_properties = parquet::ArrowWriterProperties::Builder().store_schema()->build();
    auto writer = parquet::arrow::FileWriter::Open(*schema_, arrow::default_memory_pool(), stream_,
                                                   properties.build(), arrow_properties);
    check(writer.status());
    writer_ = std::move(*writer);
  }

  template <typename Action>
  void guarded(Action action) {
    try {
      action();
    } catch (const parquet::ParquetException& error) {
      throw Error(std::string("Arrow cannot write Parquet: ") + error.what());
    }
    stream_->rethrow_failure();
  }

  Features features_;
  std::string chunking_;
  std::shared_ptr<FileStream> stream_;
  std::shared_ptr<arrow::Schema> schema_;
  std::unique_ptr<parquet::arrow::FileWriter> writer_;
};

}  // namespace
}  // namespace accelerate::detail

extern "C" accelerate::detail::ChunkWriter* accelerate_parquet_writer(
    const accelerate::detail::WriterOptions* options, accelerate::WritableFile* file) {
  return std::make_unique<accelerate::detail::ParquetWriter>(*options, *file).release();
}
