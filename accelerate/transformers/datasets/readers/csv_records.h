// Parses CSV into records.
#pragma once

#include <csv.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/transformers/datasets/readers/chunk_reader.h"
#include "accelerate/transformers/datasets/readers/file_window.h"

namespace accelerate::detail {

// Records, whose fields are stored one after the other in one text.
class CsvBatch {
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
  /// Removes the first `count` records. The fields of a record that has not ended stay.
  void drop(std::size_t count) {
    const std::size_t fields = first_field(count), bytes = fields == 0 ? 0 : ends_[fields - 1];
    text_.erase(0, bytes);
    ends_.erase(ends_.begin(), ends_.begin() + static_cast<std::ptrdiff_t>(fields));
    records_.erase(records_.begin(), records_.begin() + static_cast<std::ptrdiff_t>(count));
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

// Parses a file into records. Complete records without anything unusual are split here; libcsv, which
// looks at each byte in turn, takes the others.
//
// A record is either added to a batch, or shown as fields in the window, without a copy.
class CsvRecords {
 public:
  CsvRecords(const std::filesystem::path& file, const CsvOptions& options);
  CsvRecords(const CsvRecords&) = delete;
  CsvRecords& operator=(const CsvRecords&) = delete;
  ~CsvRecords() { csv_free(&parser_); }

  /// Parses a record, or up to the end of a line, which may not complete a record. Returns false at
  /// the end of the file.
  bool parse_some(CsvBatch& batch);

  /// Returns the fields of the next record, and moves behind it, if it is complete and plain.
  /// Otherwise returns null and stays. Valid until the next call.
  [[nodiscard]] const std::vector<std::string_view>* plain_record();

  /// Where the next record begins.
  struct Place {
    std::uint64_t byte;
    std::size_t line;
  };
  /// Returns nullopt within a record.
  [[nodiscard]] std::optional<Place> place() const;
  void go_back(const Place& place);

  [[nodiscard]] const std::string& file() const { return file_; }

 private:
  enum class Found { record, nothing_plain, end_of_window };
  // A line at the beginning of the window, or the first bytes of a very long one.
  struct Line {
    std::size_t size = 0;  ///< With its end. 0: the file has no more bytes.
    bool is_whole = false, has_end = false;
  };

  [[nodiscard]] bool is_between_records() const { return parser_.pstate == between_records_; }
  void set_up_parser();
  Found split_record(std::string_view text);
  Found take_quoted(std::string_view text, std::size_t& at);
  [[nodiscard]] Line next_line();
  void parse_line(const Line& line, bool begins_record);
  [[nodiscard]] bool is_blank(std::string_view line) const;
  [[nodiscard]] bool has_quotes_as_text(std::string_view line) const;
  void skip_line();
  static void check(const CsvOptions& options);
  [[noreturn]] void refuse_quote();
  [[noreturn]] void refuse(std::size_t line, const std::string& what) const;
  static void take_field(void* bytes, std::size_t size, void* self);
  static void take_record(int, void* self);

  std::string file_;
  char delimiter_, quote_;
  std::array<bool, 256> ends_field_{};  ///< Bytes that an unquoted field does not have.
  FileWindow window_;
  csv_parser parser_{};
  CsvBatch* batch_ = nullptr;
  /// The line in which the parser is, and the line in which its record begins.
  std::size_t line_ = 1, record_line_ = 1;
  std::vector<std::string_view> fields_;            ///< Of the record that was split last.
  std::deque<std::string> unquoted_;                ///< Its fields that have quotes in them.
  std::size_t record_size_ = 0, record_lines_ = 0;  ///< Its bytes and its lines.
  int between_records_ = 0;                         ///< The parser's state between records.
  bool is_done_ = false;
};

}  // namespace accelerate::detail
