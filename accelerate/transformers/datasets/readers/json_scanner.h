// Finds the values of a JSON file one after the other without parsing them. Strings and brackets
// tell where a value ends.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "accelerate/transformers/datasets/readers/file_window.h"

namespace accelerate::detail {

class JsonScanner {
 public:
  explicit JsonScanner(const std::filesystem::path& file);
  /// Scans `text`, a part of the file in memory, instead of the file.
  void scan(std::string text);

  /// Moves past white space, and in a list past a comma, to the next value. Returns false if none
  /// is left.
  bool find_next();
  /// Returns the value that begins here, and moves behind it. Valid until the next call of this
  /// object.
  std::string_view take();

  /// Where something is in the file, from 1 on; in a part only the row counts.
  struct Place {
    std::size_t line, column, row;
  };
  [[nodiscard]] Place place() const { return {line_ + 1, left_ + at_ - line_begin_ + 1, rows_}; }
  /// Returns "a.json, line 3, column 7", or "a.json, row 5 of the field" for a part.
  [[nodiscard]] std::string described(const Place& place) const;
  [[noreturn]] void refuse(const std::string& what) const;

 private:
  [[nodiscard]] std::string_view text() const {
    return text_ ? std::string_view(*text_).substr(left_in_text_) : window_.text();
  }
  [[nodiscard]] bool has_more() { return at_ < text().size() || (!text_ && window_.grow()); }
  template <typename Stops>
  bool move_to(const Stops& stops);
  void leave();
  void end_line() {
    ++line_;
    line_begin_ = left_ + at_ + 1;
  }
  void skip_string();

  std::string file_;
  FileWindow window_;
  std::optional<std::string> text_;
  std::size_t left_in_text_ = 0;
  /// Bytes before text(), the place in text(), the number of the current line, and where it begins.
  std::size_t left_ = 0, at_ = 0, line_ = 0, line_begin_ = 0;
  std::size_t rows_ = 0;
  bool in_list_ = false, is_past_list_ = false, found_any_ = false;
};

}  // namespace accelerate::detail
