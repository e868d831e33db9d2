// Reads Parquet through Arrow's C++ libraries, which only the two Parquet plugins include.
//
// This is a separate library, libaccelerate_parquet.so, which parquet_library.cpp opens. The
// reason: Arrow's libraries export the symbols of their simdjson, which is another version than
// ours.
#include <arrow/api.h>
#include <arrow/io/file.h>
#include <parquet/arrow/reader.h>
#include <parquet/exception.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/transformers/datasets/readers/chunk_reader.h"
#include "accelerate/transformers/datasets/storage/column_builder.h"

namespace accelerate::detail {
namespace {

using Kind = Feature::Kind;

template <typename Array, typename Get>
void append_values(const arrow::Array& array, ColumnBuilder& builder, Get get) {
  const auto& typed = static_cast<const Array&>(array);
  for (std::int64_t i = 0; i < typed.length(); ++i) {
    if (typed.IsNull(i)) {
      builder.append_missing();
    } else {
      builder.append(get(typed, i));
    }
  }
}

template <typename Array>
void append_integers(const arrow::Array& array, ColumnBuilder& builder) {
  append_values<Array>(array, builder, [](const Array& typed, std::int64_t i) {
    return static_cast<std::int64_t>(typed.Value(i));
  });
}

template <typename Array>
void append_numbers(const arrow::Array& array, ColumnBuilder& builder) {
  append_values<Array>(array, builder, [](const Array& typed, std::int64_t i) {
    return static_cast<double>(typed.Value(i));
  });
}

// Converts a float of 16 bits: a sign, 5 bits of exponent, 10 bits of mantissa. Source: IEEE 754.
double number_of_half(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  double size = std::ldexp(mantissa + 1024, exponent - 25);
  if (exponent == 0) size = std::ldexp(mantissa, -24);
  if (exponent == 31) {
    size = mantissa == 0 ? std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  return bits >> 15 == 0 ? size : -size;
}

template <typename Array>
void append_strings(const arrow::Array& array, ColumnBuilder& builder) {
  const auto& typed = static_cast<const Array&>(array);
  for (std::int64_t i = 0; i < typed.length(); ++i) {
    if (typed.IsNull(i)) {
      builder.append_missing();
    } else {
      const auto text = typed.GetView(i);
      builder.append_foreign_text({text.data(), text.size()});
    }
  }
}

// Returns the feature of an Arrow type; nullopt if there is none.
std::optional<Feature> feature_of_type(const arrow::DataType& type) {
  using arrow::Type;
  switch (type.id()) {
    case Type::NA:
      return Feature::null();
    case Type::BOOL:
      return Feature::boolean();
    case Type::INT8:
    case Type::INT16:
    case Type::INT32:
    case Type::INT64:
    case Type::UINT8:
    case Type::UINT16:
    case Type::UINT32:
    case Type::UINT64:
      return Feature::integer();
    case Type::HALF_FLOAT:
    case Type::FLOAT:
    case Type::DOUBLE:
      return Feature::floating();
    case Type::STRING:
    case Type::LARGE_STRING:
      return Feature::string();
    case Type::DICTIONARY:
      return feature_of_type(*static_cast<const arrow::DictionaryType&>(type).value_type());
    case Type::LIST:
    case Type::LARGE_LIST:
    case Type::FIXED_SIZE_LIST: {
      auto element = feature_of_type(*type.field(0)->type());
      return element ? std::optional(Feature::list_of(std::move(*element))) : std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

// Returns the names of classes if `json` describes a class label, else none.
std::vector<std::string> class_names(const nlohmann::json& json) {
  std::vector<std::string> names;
  if (!json.is_object() || !json.contains("names") || !json["names"].is_array()) return {};
  for (const auto& name : json["names"]) {
    if (!name.is_string()) return {};
    names.push_back(name.get<std::string>());
  }
  return names;
}

// Returns `feature` with the class names that `json` gives to it or to the entries of its lists.
Feature with_names(const Feature& feature, const nlohmann::json& json) {
  if (feature.kind() == Kind::integer) {
    auto names = class_names(json);
    return names.empty() ? feature : Feature::class_label(std::move(names));
  }
  if (feature.kind() != Kind::list) return feature;
  // Before version 4, Python `datasets` wrote some lists as a list with one description.
  if (json.is_array() && json.size() == 1)
    return Feature::list_of(with_names(feature.element(), json[0]));
  if (json.is_object() && json.contains("feature"))
    return Feature::list_of(with_names(feature.element(), json["feature"]));
  return feature;
}

// Returns Python `datasets`' description of a column, from the schema's metadata; null if none.
nlohmann::json python_feature(const arrow::Schema& schema, const std::string& column) {
  if (!schema.metadata()) return nullptr;
  const auto text = schema.metadata()->Get("huggingface");
  if (!text.ok()) return nullptr;
  const auto json = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  const nlohmann::json* value = &json;
  for (const std::string& key : {std::string("info"), std::string("features"), column}) {
    if (!value->is_object() || !value->contains(key)) return nullptr;
    value = &(*value)[key];
  }
  return *value;
}

class ParquetReader : public ChunkReader {
 public:
  ParquetReader(const std::filesystem::path& file, const ReaderOptions& options)
      : file_(file.string()) {
    const FileKind kind = real_file_system().status(file).kind;
    if (kind == FileKind::none) throw FileError("open", file, ENOENT);
    if (kind != FileKind::file) throw FileError("read", file, "it is not a regular file");
    try {
      open(file, options);
    } catch (const parquet::ParquetException& error) {
      throw DataError(file_ + ": is not Parquet, or is damaged: " + error.what());
    }
    for (const auto& field : batches_->schema()->fields()) {
      if (batches_->schema()->GetAllFieldIndices(field->name()).size() > 1)
        throw DataError(file_ + ": two columns have the name '" + field->name() + "'");
      features_.emplace_back(field->name(), feature_of_field(*field));
    }
    if (options.features) check(*options.features);
  }

  const Features& features() const override { return features_; }

  std::optional<Chunk> next() override {
    std::shared_ptr<arrow::RecordBatch> batch;
    try {
      check(batches_->ReadNext(&batch));
    } catch (const parquet::ParquetException& error) {
      throw DataError(file_ + ": is damaged: " + error.what());
    }
    if (!batch) return std::nullopt;
    Chunk chunk{.rows = static_cast<std::size_t>(batch->num_rows())};
    for (std::size_t i = 0; i < features_.size(); ++i) {
      const auto& [name, feature] = features_[i];
      ColumnBuilder builder(feature);
      try {
        append(*batch->column(static_cast<int>(i)), builder);
      } catch (const DataError& error) {
        throw DataError(file_ + ": the column '" + name + "' has " + error.what());
      }
      chunk.columns.push_back(builder.finish());
    }
    return chunk;
  }

 private:
  void open(const std::filesystem::path& file, const ReaderOptions& options) {
    parquet::ArrowReaderProperties properties;
    parquet::arrow::FileReaderBuilder builder;
    check(builder.OpenFile(file.string(), /*memory_map=*/false));
    properties.set_batch_size(rows_in_batch(*builder.raw_reader()->metadata(), options));
    builder.properties(properties);
    check(builder.Build(&reader_));
    auto batches = reader_->GetRecordBatchReader();
    check(batches.status());
    batches_ = std::move(*batches);
  }

  // Returns fewer rows if the metadata say that rows are long.
  static std::int64_t rows_in_batch(const parquet::FileMetaData& metadata,
                                    const ReaderOptions& options) {
    auto rows = static_cast<std::int64_t>(options.rows_in_batch);
    for (int i = 0; i < metadata.num_row_groups(); ++i) {
      const auto group = metadata.RowGroup(i);
      if (group->num_rows() <= 0 || group->total_byte_size() <= 0) continue;
      const std::int64_t bytes_a_row = group->total_byte_size() / group->num_rows() + 1;
      rows = std::min(rows, static_cast<std::int64_t>(options.bytes_in_batch) / bytes_a_row);
    }
    return std::max<std::int64_t>(rows, 1);
  }

  Feature feature_of_field(const arrow::Field& field) const {
    auto feature = feature_of_type(*field.type());
    if (!feature) {
      throw DataError(file_ + ": the column '" + field.name() + "' has the type " +
                      field.type()->ToString() +
                      "; allowed are integers, floats, booleans, strings and lists of them");
    }
    return with_names(*feature, python_feature(*batches_->schema(), field.name()));
  }

  void check(const Features& wanted) {
    const auto alike = [](const auto& a, const auto& b) {
      return a.first == b.first && a.second.has_kinds_of(b.second);
    };
    if (!std::equal(wanted.begin(), wanted.end(), features_.begin(), features_.end(), alike)) {
      throw DataError(file_ + ": the columns are " + described(features_) + ", and " +
                      described(wanted) + " are wanted");
    }
    features_ = wanted;
  }

  void check(const arrow::Status& status) const {
    if (!status.ok())
      throw DataError(file_ + ": is not Parquet, or is damaged: " + status.ToString());
  }

  void check_fits(const arrow::UInt64Array& array) const {
    for (std::int64_t i = 0; i < array.length(); ++i) {
      if (array.IsNull(i) || array.Value(i) >> 63 == 0) continue;
      throw DataError(std::to_string(array.Value(i)) +
                      ", an integer of more than 63 bits; give it as a float or a string");
    }
  }

  void append(const arrow::Array& array, ColumnBuilder& builder) const {
    using arrow::Type;
    switch (array.type_id()) {
      case Type::NA:
        for (std::int64_t i = 0; i < array.length(); ++i) builder.append_missing();
        return;
      case Type::BOOL:
        return append_values<arrow::BooleanArray>(
            array, builder, [](const auto& typed, std::int64_t i) { return typed.Value(i); });
      case Type::INT8:
        return append_integers<arrow::Int8Array>(array, builder);
      case Type::INT16:
        return append_integers<arrow::Int16Array>(array, builder);
      case Type::INT32:
        return append_integers<arrow::Int32Array>(array, builder);
      case Type::INT64:
        return append_integers<arrow::Int64Array>(array, builder);
      case Type::UINT8:
        return append_integers<arrow::UInt8Array>(array, builder);
      case Type::UINT16:
        return append_integers<arrow::UInt16Array>(array, builder);
      case Type::UINT32:
        return append_integers<arrow::UInt32Array>(array, builder);
      case Type::UINT64:
        check_fits(static_cast<const arrow::UInt64Array&>(array));
        return append_integers<arrow::UInt64Array>(array, builder);
      case Type::HALF_FLOAT:
        return append_values<arrow::HalfFloatArray>(
            array, builder,
            [](const auto& typed, std::int64_t i) { return number_of_half(typed.Value(i)); });
      case Type::FLOAT:
        return append_numbers<arrow::FloatArray>(array, builder);
      case Type::DOUBLE:
        return append_numbers<arrow::DoubleArray>(array, builder);
      case Type::STRING:
        return append_strings<arrow::StringArray>(array, builder);
      case Type::LARGE_STRING:
        return append_strings<arrow::LargeStringArray>(array, builder);
      case Type::DICTIONARY:
        return append_dictionary(static_cast<const arrow::DictionaryArray&>(array), builder);
      case Type::LIST:
        return append_lists<arrow::ListArray>(array, builder);
      case Type::LARGE_LIST:
        return append_lists<arrow::LargeListArray>(array, builder);
      default:
        return append_lists<arrow::FixedSizeListArray>(array, builder);
    }
  }

  void append_dictionary(const arrow::DictionaryArray& array, ColumnBuilder& builder) const {
    ColumnBuilder words(builder.feature());
    append(*array.dictionary(), words);
    const ColumnChunk column = words.finish();
    for (std::int64_t i = 0; i < array.length(); ++i) {
      if (array.IsNull(i)) {
        builder.append_missing();
      } else {
        builder.append(column, static_cast<std::size_t>(array.GetValueIndex(i)), 1);
      }
    }
  }

  template <typename Array>
  void append_lists(const arrow::Array& array, ColumnBuilder& builder) const {
    const auto& lists = static_cast<const Array&>(array);
    for (std::int64_t i = 0; i < lists.length(); ++i) {
      if (lists.IsNull(i)) {
        builder.append_missing();
        continue;
      }
      append(*lists.value_slice(i), builder.entries());
      builder.end_list();
    }
  }

  std::string file_;
  std::unique_ptr<parquet::arrow::FileReader> reader_;
  std::shared_ptr<arrow::RecordBatchReader> batches_;
  Features features_;
};

}  // namespace
}  // namespace accelerate::detail

extern "C" accelerate::detail::ChunkReader* accelerate_parquet_reader(
    const std::filesystem::path* file, const accelerate::detail::ReaderOptions* options) {
  return std::make_unique<accelerate::detail::ParquetReader>(*file, *options).release();
}
