// Reads CSV: RFC 4180, with a choice of delimiter and quote.
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <unordered_set>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/untrusted_text.h"
#include "accelerate/base/utf8.h"
#include "accelerate/transformers/datasets/names.h"
#include "accelerate/transformers/datasets/readers/chunk_reader.h"
#include "accelerate/transformers/datasets/readers/csv_numbers.h"
#include "accelerate/transformers/datasets/readers/csv_records.h"
#include "accelerate/transformers/datasets/storage/column_builder.h"

namespace accelerate::detail {
namespace {

std::optional<bool> boolean_of(std::string_view text) {
  if (text == "True" || text == "true" || text == "TRUE") return true;
  if (text == "False" || text == "false" || text == "FALSE") return false;
  return std::nullopt;
}

bool is_text(std::string_view text) {
  constexpr std::size_t kShort = 16;
  return text.size() < kShort ? is_utf8(text) : simdjson::validate_utf8(text.data(), text.size());
}

bool fits(std::string_view text, Feature::Kind kind) {
  switch (kind) {
    case Feature::Kind::integer:
      return csv_integer(text).has_value();
    case Feature::Kind::floating:
      return csv_float(text).has_value();
    case Feature::Kind::boolean:
      return boolean_of(text).has_value();
    default:
      return true;
  }
}

// The words that mean a missing value.
class MissingWords {
 public:
  /// `words` must outlive this.
  explicit MissingWords(const std::vector<std::string>& words)
      : words_(words.begin(), words.end()) {
    for (const std::string& word : words) places_[first_of(word)] |= bit_of(word);
  }
  [[nodiscard]] bool contains(std::string_view text) const {
    return (places_[first_of(text)] & bit_of(text)) != 0 && words_.contains(text);
  }

 private:
  static unsigned char first_of(std::string_view text) {
    return text.empty() ? 0 : static_cast<unsigned char>(text.front());
  }
  static std::uint64_t bit_of(std::string_view text) {
    constexpr std::size_t kLongest = 63;
    return std::uint64_t{1} << std::min(text.size(), kLongest);
  }

  std::unordered_set<std::string_view> words_;
  /// The sizes, as bits, of the words that begin with a byte. Most fields are told by them.
  std::array<std::uint64_t, 256> places_{};
};

class CsvReader : public ChunkReader {
 public:
  CsvReader(const std::filesystem::path& file, const ReaderOptions& options)
      : options_(options), records_(file, options.csv), missing_(options_.csv.na_values) {
    read_names();
    read_records();
    if (options_.features) {
      check_names();
    } else {
      for (std::size_t i = 0; i < names_.size(); ++i)
        features_.emplace_back(names_[i], found_feature(i));
    }
  }

  const Features& features() const override { return features_; }

  std::optional<Chunk> next() override {
    if (batch_.size() == 0) {
      if (auto chunk = plain_chunk()) return chunk;
      read_records();
    }
    if (batch_.size() == 0) return std::nullopt;
    Chunk chunk{.rows = batch_.size()};
    for (std::size_t i = 0; i < features_.size(); ++i) chunk.columns.push_back(column_of(i));
    batch_.drop(batch_.size());
    return chunk;
  }

 private:
  void read_names() {
    names_ = options_.csv.column_names;
    if (options_.csv.has_header) {
      while (batch_.size() == 0 && records_.parse_some(batch_)) {
      }
    }
    if (batch_.size() > 0) {
      const std::size_t count = batch_.fields(0);
      if (!names_.empty() && names_.size() != count) {
        throw DataError(records_.file() + ": the header has " + std::to_string(count) +
                        " columns, and .column_names has " + std::to_string(names_.size()));
      }
      for (std::size_t i = names_.size(); i < count; ++i) names_.emplace_back(batch_.field(0, i));
      batch_.drop(1);
    }
    if (names_.empty() && !options_.csv.has_header) {
      throw UsageError(records_.file() +
                       " has no header, so its columns need names. Give them by .csv.column_names");
    }
    if (names_.empty()) {
      throw DataError(records_.file() + ": the file is empty; a CSV file begins with a header");
    }
    check_header();
  }

  // Gives columns without a name the name that pandas gives them.
  void check_header() {
    std::unordered_set<std::string_view> seen;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (names_[i].empty()) names_[i] = "Unnamed: " + std::to_string(i);
      if (!is_utf8(names_[i])) {
        throw DataError(records_.file() + ", column " + std::to_string(i + 1) +
                        ": its name is not UTF-8");
      }
    }
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (seen.insert(names_[i]).second) continue;
      throw DataError(
          records_.file() + ", column " + std::to_string(i + 1) + ": '" +
          untrusted_line(names_[i]) +
          "' is the name of a column before it too. Give other names by .csv.column_names");
    }
  }

  void check_names() {
    features_ = *options_.features;
    std::vector<std::string> named;
    for (const auto& [name, feature] : features_) named.push_back(name);
    if (named == names_) return;
    std::string found;
    for (const std::string& name : names_)
      found += (found.empty() ? "" : ", ") + untrusted_line(name);
    throw DataError(records_.file() + ": the columns are " + found +
                    ", but .features or the previous file has " + described(features_) + "." +
                    delimiter_hint(names_));
  }

  // Fills the batch. It is empty, or already holds records from the line of the header.
  void read_records() {
    for (std::size_t checked = 0;;) {
      for (; checked < batch_.size(); ++checked) check_fields(checked);
      const bool is_full = batch_.size() >= options_.rows_in_batch ||
                           (batch_.size() > 0 && batch_.bytes() >= options_.bytes_in_batch);
      if (is_full || !records_.parse_some(batch_)) return;
    }
  }

  void check_fields(std::size_t record) const {
    const std::size_t count = batch_.fields(record);
    if (count == names_.size()) return;
    throw DataError(place_of(record) + ": the row has " + std::to_string(count) +
                    " fields, and the header has " + std::to_string(names_.size()) + "." +
                    delimiter_hint(names_));
  }

  // Reads the next rows without a copy of their text. Returns nullopt, and goes back, when there is
  // no row, or one has something wrong: the other way tells what, and which fault comes first.
  std::optional<Chunk> plain_chunk() {
    const auto begin = records_.place();
    if (!begin) return std::nullopt;
    if (!columns_) columns_.emplace(features_);
    while (columns_->rows < options_.rows_in_batch && columns_->bytes < options_.bytes_in_batch) {
      const auto* fields = records_.plain_record();
      const std::size_t before = columns_->rows;
      if (fields != nullptr ? append_row(*columns_, *fields) : append_others(*columns_)) {
        if (columns_->rows == before) break;  // The end of the file.
        continue;
      }
      records_.go_back(*begin);
      batch_.clear();
      columns_.reset();
      return std::nullopt;
    }
    return columns_->finish();
  }

  struct RowColumns {
    explicit RowColumns(const Features& features) {
      for (const auto& [name, feature] : features) builders.emplace_back(feature);
    }
    // Returns nullopt if there are no rows.
    std::optional<Chunk> finish() {
      if (rows == 0) return std::nullopt;
      Chunk chunk{.rows = rows};
      for (ColumnBuilder& builder : builders) chunk.columns.push_back(builder.finish());
      rows = bytes = 0;
      return chunk;
    }
    std::vector<ColumnBuilder> builders;
    std::size_t rows = 0, bytes = 0;
  };

  bool append_row(RowColumns& columns, const std::vector<std::string_view>& fields) const {
    if (fields.size() != features_.size()) return false;
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const std::string_view field = fields[i];
      columns.bytes += field.size();
      if (missing_.contains(field)) {
        columns.builders[i].append_missing();
      } else if (!append(columns.builders[i], features_[i].second, field)) {
        return false;
      }
    }
    ++columns.rows;
    return true;
  }

  // Appends the next rows that are not plain, mostly one. The batch has no record before and after.
  bool append_others(RowColumns& columns) {
    while (records_.parse_some(batch_) && batch_.size() == 0) {
    }
    std::vector<std::string_view> fields;
    for (std::size_t record = 0; record < batch_.size(); ++record) {
      fields.clear();
      for (std::size_t i = 0; i < batch_.fields(record); ++i)
        fields.push_back(batch_.field(record, i));
      if (!append_row(columns, fields)) return false;
    }
    batch_.drop(batch_.size());
    return true;
  }

  [[nodiscard]] std::string place_of(std::size_t record) const {
    return records_.file() + ", line " + std::to_string(batch_.line(record));
  }

  [[nodiscard]] Feature found_feature(std::size_t column) const {
    using Kind = Feature::Kind;
    bool is_any = false;
    std::vector<Kind> left{Kind::integer, Kind::floating, Kind::boolean};
    for (std::size_t record = 0; record < batch_.size(); ++record) {
      const std::string_view field = batch_.field(record, column);
      if (missing_.contains(field)) continue;
      is_any = true;
      std::erase_if(left, [&](Kind kind) { return !fits(field, kind); });
      if (left.empty()) return Feature::string();
    }
    if (!is_any) return Feature::null();
    if (left.front() == Kind::integer) return Feature::integer();
    return left.front() == Kind::floating ? Feature::floating() : Feature::boolean();
  }

  [[nodiscard]] ColumnChunk column_of(std::size_t index) const {
    const auto& [name, feature] = features_[index];
    ColumnBuilder builder(feature);
    for (std::size_t record = 0; record < batch_.size(); ++record) {
      const std::string_view field = batch_.field(record, index);
      if (missing_.contains(field)) {
        builder.append_missing();
      } else if (feature.kind() == Feature::Kind::string && !is_text(field)) {
        throw DataError(place_of(record) + ", column " + std::to_string(index + 1) + ": '" +
                        untrusted_line(name) + "' is not UTF-8");
      } else if (!append(builder, feature, field)) {
        throw DataError(place_of(record) + ", column " + std::to_string(index + 1) + ": '" +
                        untrusted_line(name) + "' is '" + untrusted_line(field.substr(0, 60)) +
                        "' where the column has " + feature.description() +
                        ". Give the column another type by {.features = …} if the file is right");
      }
    }
    return builder.finish();
  }

  // Returns false for a field of another type.
  static bool append(ColumnBuilder& builder, const Feature& feature, std::string_view field) {
    switch (feature.kind()) {
      case Feature::Kind::integer:
        return append_label_or_integer(builder, feature, field);
      case Feature::Kind::floating:
        return append_found(builder, csv_float(field));
      case Feature::Kind::boolean:
        return append_found(builder, boolean_of(field));
      case Feature::Kind::string:
        if (!is_text(field)) return false;
        builder.append(field);
        return true;
      default:
        return false;
    }
  }

  static bool append_label_or_integer(ColumnBuilder& builder, const Feature& feature,
                                      std::string_view field) {
    if (!feature.is_class_label()) return append_found(builder, csv_integer(field));
    // A name may look like a number, so names come first.
    const auto name = feature.find_class(field);
    const auto number = name ? name : csv_integer(field);
    const bool is_class =
        number && *number >= -1 && *number < static_cast<std::int64_t>(feature.names().size());
    if (is_class) builder.append(*number);
    return is_class;
  }

  template <typename T>
  static bool append_found(ColumnBuilder& builder, const std::optional<T>& value) {
    if (value) builder.append(*value);
    return value.has_value();
  }

  ReaderOptions options_;
  CsvRecords records_;
  MissingWords missing_;
  std::vector<std::string> names_;
  CsvBatch batch_;
  std::optional<RowColumns> columns_;
  Features features_;
};

}  // namespace

std::unique_ptr<ChunkReader> read_csv(const std::filesystem::path& file,
                                      const ReaderOptions& options) {
  return std::make_unique<CsvReader>(file, options);
}

}  // namespace accelerate::detail
