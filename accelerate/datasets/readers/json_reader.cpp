// Reads JSON: objects one after the other, or in a list. Each object is a row.
#include <simdjson.h>

#include <optional>
#include <string>
#include <unordered_set>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/datasets/readers/chunk_reader.h"
#include "accelerate/datasets/readers/file_window.h"
#include "accelerate/datasets/readers/growing_columns.h"

namespace accelerate::detail {
namespace {

using Element = simdjson::dom::element;

constexpr std::size_t kDeepest = 32;
/// The size limit of one row.
constexpr std::size_t kMostBytes = 1 << 30;

// Finds the values of a file one after the other without parsing them. Strings and brackets tell
// where a value ends.
class ValueScanner {
 public:
  explicit ValueScanner(const std::filesystem::path& file) : file_(file.string()), window_(file) {
    (void)window_.grow();
    if (window_.text().starts_with(kByteOrderMark)) window_.leave(kByteOrderMark.size());
  }
  /// Scans `text`, a part of the file in memory, instead of the file.
  void scan(std::string text) {
    text_ = std::move(text);
    at_ = 0;
  }

  /// Moves past white space, and in a list past a comma, to the next value. Returns false if none
  /// is left.
  bool find_next() {
    leave();
    bool is_behind_comma = false;
    for (; has_more(); ++at_) {
      const char c = text()[at_];
      if (c == '\n') end_line();
      if (c == ' ' || c == '\t' || c == '\r' || c == '\n') continue;
      if (in_list_ && c == ',') {
        if (!found_any_ || is_behind_comma) refuse("a comma stands where a row is expected");
        is_behind_comma = true;
      } else if (!in_list_ && c == '[' && !found_any_) {
        in_list_ = true;
      } else if (in_list_ && c == ']') {
        if (is_behind_comma) refuse("the list of rows ends with a comma");
        in_list_ = false;
        is_past_list_ = true;
      } else {
        if (is_past_list_) refuse("something follows the list of rows");
        if (in_list_ && found_any_ && !is_behind_comma)
          refuse("a comma is missing before this row");
        found_any_ = true;
        ++rows_;
        return true;
      }
    }
    if (in_list_) refuse("the list of rows is not closed");
    return false;
  }

  /// Returns the value that begins here, and moves behind it. Valid until the next call of this
  /// object.
  std::string_view take() {
    leave();
    std::size_t depth = 0;
    for (; has_more(); ++at_) {
      const char c = text()[at_];
      if (c == '"') {
        skip_string();
      } else if (c == '{' || c == '[') {
        ++depth;
      } else if (c == '}' || c == ']') {
        if (depth == 0) break;
        if (--depth == 0) {
          ++at_;
          break;
        }
      } else if (depth == 0 && (c == ',' || c == '\n' || c == ' ')) {
        break;
      }
      if (c == '\n') end_line();
    }
    return text().substr(0, at_);
  }

  /// Says where the scanner is: "a.json, line 3, column 7", or "a.json, row 5 of the field" for a
  /// part.
  [[nodiscard]] std::string place() const {
    if (text_) return file_ + ", row " + std::to_string(rows_) + " of the field";
    return file_ + ", line " + std::to_string(line_ + 1) + ", column " +
           std::to_string(left_ + at_ - line_begin_ + 1);
  }
  [[noreturn]] void refuse(const std::string& what) const {
    throw DataError(place() + ": " + what);
  }

 private:
  [[nodiscard]] std::string_view text() const {
    return text_ ? std::string_view(*text_).substr(left_in_text_) : window_.text();
  }
  [[nodiscard]] bool has_more() { return at_ < text().size() || (!text_ && window_.grow()); }

  // Drops the text before the current place.
  void leave() {
    if (text_) {
      left_in_text_ += at_;
    } else {
      window_.leave(at_);
    }
    left_ += at_;
    at_ = 0;
  }

  void end_line() {
    ++line_;
    line_begin_ = left_ + at_ + 1;
  }

  void skip_string() {
    const std::string begin = place();
    for (++at_; has_more() && text()[at_] != '"'; ++at_) {
      if (text()[at_] == '\n') end_line();
      if (text()[at_] == '\\') ++at_;
    }
    if (!has_more()) throw DataError(begin + ": a string is not closed");
  }

  std::string file_;
  FileWindow window_;
  std::optional<std::string> text_;
  std::size_t left_in_text_ = 0;
  /// Bytes before text(), the place in text(), the number of the current line, and where it begins.
  std::size_t left_ = 0, at_ = 0, line_ = 0, line_begin_ = 0;
  std::size_t rows_ = 0;
  bool in_list_ = false, is_past_list_ = false, found_any_ = false;
};

class JsonReader : public ChunkReader {
 public:
  JsonReader(const std::filesystem::path& file, const ReaderOptions& options)
      : file_(file.string()), options_(options), scanner_(file) {
    if (!options.json.field.empty()) scanner_.scan(text_below(file, options.json.field));
    if (options_.features) {
      features_ = *options_.features;
      return;
    }
    read_rows();
    features_ = features_of(rows_, places_);
  }

  const Features& features() const override { return features_; }

  std::optional<Chunk> next() override {
    if (rows_.empty()) read_rows();
    if (rows_.empty()) return std::nullopt;
    Chunk chunk = chunk_of(rows_, places_, features_);
    rows_.clear();
    return chunk;
  }

 private:
  std::string text_below(const std::filesystem::path& file, const std::string& field) {
    FileWindow window(file);
    while (window.grow()) {
    }
    if (window.text().starts_with(kByteOrderMark)) window.leave(kByteOrderMark.size());
    Element rows;
    if (parsed(window.text(), file_ + ", line 1, column 1").at_key(field).get(rows) !=
        simdjson::SUCCESS) {
      throw DataError(file_ + ": there is no '" + field + "' in its object");
    }
    return simdjson::minify(rows);
  }

  void read_rows() {
    rows_.clear();
    places_.clear();
    std::size_t bytes = 0;
    while (rows_.size() < options_.rows_in_batch && bytes < options_.bytes_in_batch &&
           scanner_.find_next()) {
      places_.push_back(scanner_.place());
      const std::string_view text = scanner_.take();
      if (text.size() > kMostBytes)
        scanner_.refuse("a row of more than 1 GiB; allowed are smaller ones");
      bytes += text.size();
      rows_.push_back(row_of(parsed(text, places_.back())));
    }
  }

  Element parsed(std::string_view text, const std::string& place) {
    buffer_.assign(text.begin(), text.end());
    buffer_.resize(text.size() + simdjson::SIMDJSON_PADDING);
    Element element;
    const auto error =
        parser_.parse(buffer_.data(), text.size(), /*realloc_if_needed=*/false).get(element);
    if (error != simdjson::SUCCESS)
      throw DataError(place + ": is not valid JSON: " + simdjson::error_message(error));
    return element;
  }

  Row row_of(const Element& element) {
    simdjson::dom::object object;
    if (element.get(object) != simdjson::SUCCESS)
      throw DataError(places_.back() + ": a row is an object: {\"column\": value, …}");
    Row row;
    keys_.clear();
    for (const auto& [key, value] : object) {
      if (!keys_.insert(key).second) {
        throw DataError(places_.back() + ": the key '" + std::string(key) + "' appears twice");
      }
      row.add(std::string(key), value_of(value, key, 0));
    }
    return row;
  }

  Value value_of(const Element& element, std::string_view key, std::size_t depth) {
    using enum simdjson::dom::element_type;
    switch (element.type()) {
      case NULL_VALUE:
        return {};
      case INT64:
        return element.get_int64().value_unsafe();
      case DOUBLE:
        return element.get_double().value_unsafe();
      case BOOL:
        return element.get_bool().value_unsafe();
      case STRING:
        return std::string(element.get_string().value_unsafe());
      case ARRAY:
        return list_of(element, key, depth);
      case UINT64:
        throw DataError(places_.back() + ": '" + std::string(key) +
                        "' is an integer of more than 63 bits; give it as a float or a string");
      case OBJECT:
        break;
    }
    throw DataError(
        places_.back() + ": '" + std::string(key) +
        "' is an object; allowed are integers, floats, booleans, strings and lists of them");
  }

  Value list_of(const Element& element, std::string_view key, std::size_t depth) {
    if (depth > kDeepest)
      throw DataError(places_.back() + ": '" + std::string(key) +
                      "' has more than 32 lists within each other");
    const simdjson::dom::array entries = element.get_array().value_unsafe();
    if (auto integers = entries_of<std::int64_t>(entries)) return std::move(*integers);
    if (auto numbers = entries_of<double>(entries)) return std::move(*numbers);
    Value::List list;
    for (const Element entry : entries) list.push_back(value_of(entry, key, depth + 1));
    return list;
  }

  // Returns the entries of a list that has only this type. They take a fifth of the memory of
  // Values.
  template <typename T>
  static std::optional<std::vector<T>> entries_of(const simdjson::dom::array& entries) {
    std::vector<T> found;
    for (const Element entry : entries) {
      if (!entry.is<T>() || (std::is_same_v<T, double> && !entry.is_double())) return std::nullopt;
      found.push_back(entry.get<T>().value_unsafe());
    }
    // An empty list may be a list of strings.
    return found.empty() ? std::nullopt : std::optional(std::move(found));
  }

  std::string file_;
  ReaderOptions options_;
  simdjson::dom::parser parser_;
  std::vector<char> buffer_;
  ValueScanner scanner_;
  std::vector<Row> rows_;
  std::vector<std::string> places_;
  /// The keys of one row. They point into the parser's memory.
  std::unordered_set<std::string_view> keys_;
  Features features_;
};

}  // namespace

std::unique_ptr<ChunkReader> read_json(const std::filesystem::path& file,
                                       const ReaderOptions& options) {
  return std::make_unique<JsonReader>(file, options);
}

}  // namespace accelerate::detail
