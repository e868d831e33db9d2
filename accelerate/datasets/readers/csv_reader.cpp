// Reads CSV: RFC 4180, with a choice of delimiter and quote.
#include <csv.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string>
#include <unordered_set>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/base/utf8.h"
#include "accelerate/datasets/readers/chunk_reader.h"
#include "accelerate/datasets/readers/file_window.h"
#include "accelerate/datasets/storage/column_builder.h"

namespace accelerate::detail {
namespace {

// Records, whose fields are stored one after the other in one text.
class RecordBatch {
 public:
  void add_field(std::string_view field) {
    text_ += field;
    ends_.push_back(text_.size());
  }
  /// Ends a record that begins in `line`.
  void end_record(std::size_t line) { records_.push_back({ends_.size(), line}); }
  void clear() {
    text_.clear();
    ends_.clear();
    records_.clear();
  }
  /// Removes the first record.
  void drop_first() {
    const std::size_t fields = records_.front().end, bytes = fields == 0 ? 0 : ends_[fields - 1];
    text_.erase(0, bytes);
    ends_.erase(ends_.begin(), ends_.begin() + static_cast<std::ptrdiff_t>(fields));
    records_.erase(records_.begin());
    for (std::size_t& end : ends_) end -= bytes;
    for (Record& record : records_) record.end -= fields;
  }

  [[nodiscard]] std::size_t size() const { return records_.size(); }
  [[nodiscard]] std::size_t bytes() const { return text_.size(); }
  /// The number of fields of the record that has not ended.
  [[nodiscard]] std::size_t open_fields() const {
    return ends_.size() - (records_.empty() ? 0 : records_.back().end);
  }
  [[nodiscard]] std::size_t fields(std::size_t record) const {
    return records_[record].end - first_field(record);
  }
  [[nodiscard]] std::size_t line(std::size_t record) const { return records_[record].line; }
  [[nodiscard]] std::string_view field(std::size_t record, std::size_t column) const {
    const std::size_t place = first_field(record) + column;
    const std::size_t begin = place == 0 ? 0 : ends_[place - 1];
    return std::string_view(text_).substr(begin, ends_[place] - begin);
  }

 private:
  struct Record {
    std::size_t end;   ///< One past its last field.
    std::size_t line;  ///< The line in which it begins.
  };
  [[nodiscard]] std::size_t first_field(std::size_t record) const {
    return record == 0 ? 0 : records_[record - 1].end;
  }

  std::string text_;
  std::vector<std::size_t> ends_;
  std::vector<Record> records_;
};

// Parses a file into records.
class Records {
 public:
  Records(const std::filesystem::path& file, const CsvOptions& options)
      : file_(file.string()), delimiter_(options.delimiter), quote_(options.quote), window_(file) {
    check(options);
    if (csv_init(&parser_, CSV_STRICT | CSV_STRICT_FINI) != 0) throw std::bad_alloc();
    between_records_ = parser_.pstate;
    csv_set_delim(&parser_, static_cast<unsigned char>(options.delimiter));
    csv_set_quote(&parser_, static_cast<unsigned char>(options.quote));
    // Spaces around a field belong to it.
    csv_set_space_func(&parser_, [](unsigned char) { return 0; });
    (void)window_.grow();
    if (window_.text().starts_with(kByteOrderMark)) window_.leave(kByteOrderMark.size());
    for (std::size_t i = 0; i < options.skip_rows; ++i) skip_line();
  }
  Records(const Records&) = delete;
  Records& operator=(const Records&) = delete;
  ~Records() { csv_free(&parser_); }

  /// Parses up to the end of a line, which may not complete a record. Returns false at the end of
  /// the file.
  bool parse_line(RecordBatch& batch) {
    if (is_done_) return false;
    batch_ = &batch;
    const bool begins_record = parser_.pstate == between_records_;
    if (begins_record) record_line_ = line_;
    if (window_.text().empty() && !window_.grow()) {
      is_done_ = true;
      if (csv_fini(&parser_, take_field, take_record, this) != 0)
        refuse(record_line_, "a quote that opens in this row is not closed");
      return true;
    }
    const std::string_view text = window_.text();
    const std::size_t end = text.find('\n');
    const std::size_t size = end == std::string_view::npos ? text.size() : end + 1;
    const std::string_view line = text.substr(0, size);
    // As pandas: a blank line is not a record, and quotes that do not begin a field are text.
    if (begins_record && end != std::string_view::npos && is_blank(line)) {
      window_.leave(size);
      ++line_;
      return true;
    }
    const bool has_text_quotes = begins_record && has_quotes_as_text(line);
    if (has_text_quotes) csv_set_opts(&parser_, CSV_STRICT_FINI);
    if (csv_parse(&parser_, text.data(), size, take_field, take_record, this) != size) {
      refuse(line_, std::string("a quote stands where none may: ") +
                        csv_strerror(csv_error(&parser_)) +
                        ". A field with quotes in it stands in quotes, each quote twice; if quotes "
                        "mean nothing in this file, give .csv.quote = '\\0'");
    }
    if (has_text_quotes) csv_set_opts(&parser_, CSV_STRICT | CSV_STRICT_FINI);
    window_.leave(size);
    if (end != std::string_view::npos) ++line_;
    return true;
  }

  [[nodiscard]] const std::string& file() const { return file_; }

 private:
  [[nodiscard]] bool is_blank(std::string_view line) const {
    return std::ranges::all_of(line, [&](char c) {
      return (c == ' ' || c == '\t' || c == '\r' || c == '\n') && c != delimiter_;
    });
  }

  // Whether a whole line has quotes, but none at the beginning of a field.
  [[nodiscard]] bool has_quotes_as_text(std::string_view line) const {
    std::size_t place = line.find(quote_);
    if (place == std::string_view::npos || !line.ends_with('\n')) return false;
    for (; place != std::string_view::npos; place = line.find(quote_, place + 1)) {
      if (place == 0 || line[place - 1] == delimiter_ || line[place - 1] == '\r') return false;
    }
    return true;
  }

  void skip_line() {
    std::size_t end = 0;
    while ((end = window_.text().find('\n')) == std::string_view::npos) {
      window_.leave(window_.text().size());
      if (!window_.grow()) return;
    }
    window_.leave(end + 1);
    ++line_;
  }

  static void check(const CsvOptions& options) {
    const auto ends_lines = [](char c) { return c == '\n' || c == '\r'; };
    if (ends_lines(options.delimiter) || ends_lines(options.quote) ||
        options.delimiter == options.quote) {
      throw UsageError(
          "the delimiter and the quote of CSV are two characters, and neither of them ends a line");
    }
  }

  [[noreturn]] void refuse(std::size_t line, const std::string& what) const {
    throw DataError(file_ + ", line " + std::to_string(line) + ", column " +
                    std::to_string(batch_->open_fields() + 1) + ": " + what);
  }

  static void take_field(void* bytes, std::size_t size, void* self) {
    static_cast<Records*>(self)->batch_->add_field({static_cast<const char*>(bytes), size});
  }
  static void take_record(int, void* self) {
    const auto& records = *static_cast<Records*>(self);
    records.batch_->end_record(records.record_line_);
  }

  std::string file_;
  char delimiter_, quote_;
  FileWindow window_;
  csv_parser parser_{};
  RecordBatch* batch_ = nullptr;
  /// The line in which the parser is, and the line in which its record begins.
  std::size_t line_ = 1, record_line_ = 1;
  int between_records_ = 0;  ///< The parser's state between records.
  bool is_done_ = false;
};

// A number may have spaces around it and a plus sign before it.
std::string_view bare_number(std::string_view text) {
  text = trim(text);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  return text;
}

std::optional<std::int64_t> integer_of(std::string_view text) {
  text = bare_number(text);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> number_of(std::string_view text) {
  text = bare_number(text);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::invalid_argument || end != text.data() + text.size()) return std::nullopt;
  // Too large or too small: infinity or zero, as strtod returns.
  if (error == std::errc::result_out_of_range)
    return std::strtod(std::string(text).c_str(), nullptr);
  return value;
}

std::optional<bool> boolean_of(std::string_view text) {
  if (text == "True" || text == "true" || text == "TRUE") return true;
  if (text == "False" || text == "false" || text == "FALSE") return false;
  return std::nullopt;
}

bool fits(std::string_view text, Feature::Kind kind) {
  switch (kind) {
    case Feature::Kind::integer:
      return integer_of(text).has_value();
    case Feature::Kind::floating:
      return number_of(text).has_value();
    case Feature::Kind::boolean:
      return boolean_of(text).has_value();
    default:
      return true;
  }
}

class CsvReader : public ChunkReader {
 public:
  CsvReader(const std::filesystem::path& file, const ReaderOptions& options)
      : options_(options),
        records_(file, options.csv),
        missing_(options_.csv.na_values.begin(), options_.csv.na_values.end()) {
    for (const std::string_view word : missing_)
      longest_missing_ = std::max(longest_missing_, word.size());
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
    if (batch_.size() == 0) read_records();
    if (batch_.size() == 0) return std::nullopt;
    Chunk chunk{.rows = batch_.size()};
    for (std::size_t i = 0; i < features_.size(); ++i) chunk.columns.push_back(column_of(i));
    batch_.clear();
    return chunk;
  }

 private:
  void read_names() {
    names_ = options_.csv.column_names;
    if (options_.csv.has_header) {
      while (batch_.size() == 0 && records_.parse_line(batch_)) {
      }
    }
    if (batch_.size() > 0) {
      const std::size_t count = batch_.fields(0);
      if (!names_.empty() && names_.size() != count) {
        throw DataError(records_.file() + ": the header has " + std::to_string(count) +
                        " columns, and .column_names has " + std::to_string(names_.size()));
      }
      for (std::size_t i = names_.size(); i < count; ++i) names_.emplace_back(batch_.field(0, i));
      batch_.drop_first();
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
          records_.file() + ", column " + std::to_string(i + 1) + ": '" + names_[i] +
          "' is the name of a column before it too. Give other names by .csv.column_names");
    }
  }

  void check_names() {
    features_ = *options_.features;
    std::vector<std::string> named;
    for (const auto& [name, feature] : features_) named.push_back(name);
    if (named == names_) return;
    std::string found;
    for (const std::string& name : names_) found += (found.empty() ? "" : ", ") + name;
    throw DataError(records_.file() + ": the columns are " + found +
                    ", but .features or the previous file has " + described(features_));
  }

  // Fills the batch. It is empty, or already holds records from the line of the header.
  void read_records() {
    for (std::size_t checked = 0;;) {
      for (; checked < batch_.size(); ++checked) check_fields(checked);
      const bool is_full = batch_.size() >= options_.rows_in_batch ||
                           (batch_.size() > 0 && batch_.bytes() >= options_.bytes_in_batch);
      if (is_full || !records_.parse_line(batch_)) return;
    }
  }

  void check_fields(std::size_t record) const {
    const std::size_t count = batch_.fields(record);
    if (count == names_.size()) return;
    throw DataError(place_of(record) + ": the row has " + std::to_string(count) +
                    " fields, and the header has " + std::to_string(names_.size()));
  }

  [[nodiscard]] std::string place_of(std::size_t record) const {
    return records_.file() + ", line " + std::to_string(batch_.line(record));
  }

  [[nodiscard]] bool is_missing(std::string_view field) const {
    return field.size() <= longest_missing_ && missing_.contains(field);
  }

  [[nodiscard]] Feature found_feature(std::size_t column) const {
    using Kind = Feature::Kind;
    bool is_any = false;
    std::vector<Kind> left{Kind::integer, Kind::floating, Kind::boolean};
    for (std::size_t record = 0; record < batch_.size(); ++record) {
      const std::string_view field = batch_.field(record, column);
      if (is_missing(field)) continue;
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
      if (is_missing(field)) {
        builder.append_missing();
      } else if (feature.kind() == Feature::Kind::string && !is_utf8(field)) {
        throw DataError(place_of(record) + ", column " + std::to_string(index + 1) + ": '" + name +
                        "' is not UTF-8");
      } else if (!append(builder, feature, field)) {
        throw DataError(place_of(record) + ", column " + std::to_string(index + 1) + ": '" + name +
                        "' is '" + std::string(field.substr(0, 60)) + "' where the column has " +
                        feature.description() +
                        ". Give the column another type by {.features = …} if the file is right");
      }
    }
    return builder.finish();
  }

  static bool append(ColumnBuilder& builder, const Feature& feature, std::string_view field) {
    switch (feature.kind()) {
      case Feature::Kind::integer:
        return append_label_or_integer(builder, feature, field);
      case Feature::Kind::floating:
        return append_found(builder, number_of(field));
      case Feature::Kind::boolean:
        return append_found(builder, boolean_of(field));
      case Feature::Kind::string:
        builder.append(field);
        return true;
      default:
        return false;
    }
  }

  static bool append_label_or_integer(ColumnBuilder& builder, const Feature& feature,
                                      std::string_view field) {
    if (!feature.is_class_label()) return append_found(builder, integer_of(field));
    // A name may look like a number, so names come first.
    const auto name = feature.find_class(field);
    const auto number = name ? name : integer_of(field);
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
  Records records_;
  /// Points into options_.
  std::unordered_set<std::string_view> missing_;
  std::size_t longest_missing_ = 0;
  std::vector<std::string> names_;
  RecordBatch batch_;
  Features features_;
};

}  // namespace

std::unique_ptr<ChunkReader> read_csv(const std::filesystem::path& file,
                                      const ReaderOptions& options) {
  return std::make_unique<CsvReader>(file, options);
}

}  // namespace accelerate::detail
