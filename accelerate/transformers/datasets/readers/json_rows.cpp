// Reads JSON: objects one after the other, or in a list. Each object is a row.
#include <simdjson.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/base/untrusted_text.h"
#include "accelerate/transformers/datasets/features.h"
#include "accelerate/transformers/datasets/readers/chunk_reader.h"
#include "accelerate/transformers/datasets/readers/file_window.h"
#include "accelerate/transformers/datasets/readers/json_columns.h"
#include "accelerate/transformers/datasets/readers/json_scanner.h"
#include "accelerate/transformers/datasets/row.h"
#include "accelerate/transformers/datasets/storage/column_table.h"

namespace accelerate::detail {
namespace {

[[noreturn]] void refuse(const std::string& place, const std::string& name,
                         const std::string& what) {
  throw DataError(place + ": '" + untrusted_line(name) + "' " + what +
                  ". Give the column another type by {.features = …} if the file is right");
}

// Returns the features that hold all of `rows`; rows may lack values. `places` says where each row
// is, for messages: "a.json, line 3". Throws DataError when two rows have values of incompatible
// types.
Features features_of(const std::vector<Row>& rows, const std::vector<std::string>& places) {
  Features features;
  std::unordered_map<std::string, std::size_t> places_of_names;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::size_t place = 0;
    for (const auto& [name, value] : rows[i]) {
      // Rows of a file mostly have their columns in the same order.
      auto known =
          features.begin() + static_cast<std::ptrdiff_t>(std::min(place++, features.size()));
      if (known == features.end() || known->first != name) {
        const auto number = places_of_names.try_emplace(name, features.size()).first->second;
        if (number == features.size()) features.emplace_back(name, Feature::null());
        known = features.begin() + static_cast<std::ptrdiff_t>(number);
      }
      auto wider = feature_of(value, known->second);
      if (!wider) {
        refuse(places[i], name,
               !feature_of(value) ? "is a list of values that have no type in common"
                                  : "is " + value.description() + ", and was " +
                                        known->second.description() + " before");
      }
      known->second = std::move(*wider);
    }
  }
  return features;
}

// Returns `rows` as columns of `features`. A value that a row lacks is missing. Throws DataError
// for a value of another type, and for a name that is not a feature.
Chunk chunk_of(const std::vector<Row>& rows, const std::vector<std::string>& places,
               const Features& features) {
  std::vector<ColumnBuilder> builders;
  for (const auto& [name, feature] : features) builders.emplace_back(feature);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::size_t used = 0;
    for (std::size_t column = 0; column < features.size(); ++column) {
      const auto& [name, feature] = features[column];
      const Value* value = rows[i].find(name, column);
      if (value != nullptr) ++used;
      try {
        const bool is_name =
            value != nullptr && feature.is_class_label() && value->holds<std::string>();
        if (value == nullptr) {
          builders[column].append_missing();
        } else if (is_name) {
          builders[column].append(feature.str2int(value->text()));
        } else {
          builders[column].append(*value);
        }
      } catch (const DataError& error) {
        refuse(places[i], name, std::string("is ") + error.what());
      } catch (const UsageError& error) {  // The text is not the name of a class.
        throw DataError(places[i] + ": '" + name + "': " + error.what());
      }
    }
    if (used == rows[i].size()) continue;
    for (const auto& [name, value] : rows[i]) {
      const bool is_known =
          std::ranges::any_of(features, [&](const auto& feature) { return feature.first == name; });
      if (!is_known)
        refuse(places[i], name, "is none of the columns found before: " + described(features));
    }
  }
  Chunk chunk{.rows = rows.size()};
  for (ColumnBuilder& builder : builders) chunk.columns.push_back(builder.finish());
  return chunk;
}

// Says that `number`, an integer below `key`, is too large.
std::string too_large_integer(std::string_view key, std::string_view number) {
  return "'" + untrusted_line(key) + "' is " + untrusted_line(number.substr(0, 60)) +
         ", an integer of more than 63 bits; give it as a float or a string";
}

// Visits the values of a text until one is a number that is too large.
class NumberSearch : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::optional<std::string> found;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(std::int64_t) override { return true; }
  bool number_unsigned(std::uint64_t value) override {
    if (value >> 63 != 0) found = too_large_integer(key_, std::to_string(value));
    return !found;
  }
  // nlohmann::json reads an integer of more than 64 bits as a float.
  bool number_float(double, const std::string& text) override {
    if (text.find_first_of(".eE") == std::string::npos) found = too_large_integer(key_, text);
    return !found;
  }
  bool string(std::string&) override { return true; }
  bool binary(nlohmann::json::binary_t&) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool key(std::string& name) override {
    key_ = name;
    return true;
  }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t, const std::string& text,
                   const nlohmann::json::exception& error) override {
    constexpr int kNumberOverflow = 406;
    if (error.id != kNumberOverflow) return false;
    found = "'" + untrusted_line(key_) + "' is " + untrusted_line(text) +
            ", which is too large for a float of 64 bits; give it as a string";
    return false;
  }

 private:
  std::string key_;
};

// Says which number in `text` does not fit into 64 bits, and what to write instead: "'key' is …".
// Returns nullopt if there is none, or if the JSON is not valid before it.
std::optional<std::string> too_large_number(std::string_view text) {
  NumberSearch search;
  (void)nlohmann::json::sax_parse(text, &search);
  return std::move(search.found);
}

using Element = simdjson::dom::element;

/// The size limit of one row.
constexpr std::size_t kMostBytes = 1 << 30;

class JsonReader : public ChunkReader {
 public:
  JsonReader(const std::filesystem::path& file, const ReaderOptions& options)
      : file_(file.string()), options_(options), scanner_(file) {
    if (!options.json.field.empty()) scanner_.scan(text_below(file, options.json.field));
    if (options_.features) {
      features_ = *options_.features;
      return;
    }
    read_batch();
    features_ = features_of(rows_of_batch(), places_of_batch());
  }

  const Features& features() const override { return features_; }

  std::optional<Chunk> next() override {
    if (ends_.empty()) read_batch();
    if (ends_.empty()) return std::nullopt;
    auto chunk = plain_chunk();
    if (!chunk) chunk = chunk_of(rows_of_batch(), places_of_batch(), features_);
    ends_.clear();
    return chunk;
  }

 private:
  std::string text_below(const std::filesystem::path& file, const std::string& field) {
    FileWindow window(file);
    while (window.grow()) {
    }
    if (window.text().starts_with(kByteOrderMark)) window.leave(kByteOrderMark.size());
    const simdjson::padded_string text(window.text());
    Element rows;
    const Element whole = checked(parser_.parse(text), file_ + ", line 1, column 1", window.text());
    if (whole.at_key(field).get(rows) != simdjson::SUCCESS) {
      throw DataError(file_ + ": there is no '" + field + "' in its object");
    }
    return simdjson::minify(rows);
  }

  // Reads the texts of the next rows. When the file is damaged behind them, a damaged row among
  // them is told first.
  void read_batch() {
    std::exception_ptr failure;
    ends_.clear();
    places_.clear();
    batch_.clear();
    try {
      while (ends_.size() < options_.rows_in_batch && batch_.size() < options_.bytes_in_batch &&
             scanner_.find_next())
        take_row();
    } catch (...) {
      failure = std::current_exception();
    }
    batch_.append(simdjson::SIMDJSON_PADDING, '\0');
    if (!failure) return;
    (void)rows_of_batch();
    std::rethrow_exception(failure);
  }

  void take_row() {
    const JsonScanner::Place place = scanner_.place();
    const std::string_view text = scanner_.take();
    if (text.size() > kMostBytes)
      scanner_.refuse("a row of more than 1 GiB; allowed are smaller ones");
    batch_ += text;
    ends_.push_back(batch_.size());
    places_.push_back(place);
  }

  // The bytes behind a text are the next row, or the padding.
  simdjson::simdjson_result<Element> parsed_row(std::size_t row) {
    const std::string_view text = text_of_row(row);
    return parser_.parse(text.data(), text.size(), /*realloc_if_needed=*/false);
  }

  [[nodiscard]] std::string_view text_of_row(std::size_t row) const {
    const std::size_t begin = row == 0 ? 0 : ends_[row - 1];
    return std::string_view(batch_).substr(begin, ends_[row] - begin);
  }

  // Returns nullopt if a row has something unusual.
  std::optional<Chunk> plain_chunk() {
    if (!JsonColumns::takes(features_)) return std::nullopt;
    if (!columns_) columns_.emplace(features_);
    for (std::size_t i = 0; i < ends_.size(); ++i) {
      Element row;
      if (parsed_row(i).get(row) == simdjson::SUCCESS && columns_->append(row)) continue;
      columns_.reset();
      return std::nullopt;
    }
    return columns_->finish();
  }

  std::vector<Row> rows_of_batch() {
    std::vector<Row> rows;
    for (row_ = 0; row_ < ends_.size(); ++row_)
      rows.push_back(row_of(checked(parsed_row(row_), place(), text_of_row(row_))));
    return rows;
  }

  std::vector<std::string> places_of_batch() const {
    std::vector<std::string> places;
    for (const auto& place : places_) places.push_back(scanner_.described(place));
    return places;
  }

  // Where the row is that rows_of_batch() reads.
  [[nodiscard]] std::string place() const { return scanner_.described(places_[row_]); }

  static Element checked(simdjson::simdjson_result<Element> result, const std::string& place,
                         std::string_view text) {
    Element element;
    const auto error = std::move(result).get(element);
    if (error == simdjson::SUCCESS) return element;
    const auto number =
        error == simdjson::NUMBER_ERROR ? too_large_number(text) : std::optional<std::string>();
    if (number) throw DataError(place + ": " + *number);
    throw DataError(place + ": is not valid JSON: " + simdjson::error_message(error));
  }

  Row row_of(const Element& element) {
    simdjson::dom::object object;
    if (element.get(object) != simdjson::SUCCESS)
      throw DataError(place() + ": a row is an object: {\"column\": value, …}");
    Row row;
    keys_.clear();
    for (const auto& [key, value] : object) {
      if (!keys_.insert(key).second) {
        throw DataError(place() + ": the key '" + untrusted_line(key) + "' appears twice");
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
        throw DataError(
            place() + ": " +
            too_large_integer(key, std::to_string(element.get_uint64().value_unsafe())));
      case OBJECT:
        break;
    }
    throw DataError(
        place() + ": '" + untrusted_line(key) +
        "' is an object; allowed are integers, floats, booleans, strings and lists of them");
  }

  Value list_of(const Element& element, std::string_view key, std::size_t depth) {
    if (depth > kDeepestJsonList)
      throw DataError(place() + ": '" + untrusted_line(key) +
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
  JsonScanner scanner_;
  /// The texts of rows one after the other, where each ends, and where each is in the file.
  std::string batch_;
  std::vector<std::size_t> ends_;
  std::vector<JsonScanner::Place> places_;
  std::size_t row_ = 0;
  /// The keys of one row. They point into the parser's memory.
  std::unordered_set<std::string_view> keys_;
  Features features_;
  std::optional<JsonColumns> columns_;
};

}  // namespace

std::unique_ptr<ChunkReader> read_json(const std::filesystem::path& file,
                                       const ReaderOptions& options) {
  return std::make_unique<JsonReader>(file, options);
}

}  // namespace accelerate::detail
