#include "accelerate/transformers/datasets/readers/json_scanner.h"

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <utility>

#include "accelerate/base/error.h"

namespace accelerate::detail {
namespace {

using Bytes = std::array<bool, 256>;

constexpr Bytes bytes_of(std::string_view wanted) {
  Bytes bytes{};
  for (const char c : wanted) bytes[static_cast<unsigned char>(c)] = true;
  return bytes;
}

constexpr Bytes kInside = bytes_of("\"{}[]\n");     // What counts within an object or a list.
constexpr Bytes kOutside = bytes_of("\"{}[]\n, ");  // What ends a value that is neither.
constexpr Bytes kInString = bytes_of("\"\\\n");

// A word whose bytes are all `byte`, and one whose highest bits tell which bytes of `word` are
// zero. Only the lowest of them is sure.
constexpr std::uint64_t all_bytes(char byte) {
  return 0x0101010101010101U * static_cast<unsigned char>(byte);
}
constexpr std::uint64_t zero_bytes(std::uint64_t word) {
  return (word - all_bytes('\x01')) & ~word & all_bytes('\x80');
}

// Returns the first place from `at` on that has a quote, a backslash or a line end; text.size() or
// more if none has. Looks at eight bytes at a time, the first of which is the lowest.
std::size_t place_in_string(std::string_view text, std::size_t at) {
  static_assert(std::endian::native == std::endian::little);
  for (std::uint64_t word = 0; at + sizeof(word) <= text.size(); at += sizeof(word)) {
    std::memcpy(&word, text.data() + at, sizeof(word));
    const std::uint64_t found = zero_bytes(word ^ all_bytes('"')) |
                                zero_bytes(word ^ all_bytes('\\')) |
                                zero_bytes(word ^ all_bytes('\n'));
    if (found != 0) return at + static_cast<std::size_t>(std::countr_zero(found)) / 8;
  }
  while (at < text.size() && !kInString[static_cast<unsigned char>(text[at])]) ++at;
  return at;
}

}  // namespace

JsonScanner::JsonScanner(const std::filesystem::path& file) : file_(file.string()), window_(file) {
  (void)window_.grow();
  if (window_.text().starts_with(kByteOrderMark)) window_.leave(kByteOrderMark.size());
}

void JsonScanner::scan(std::string text) {
  text_ = std::move(text);
  at_ = 0;
}

bool JsonScanner::find_next() {
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
      if (in_list_ && found_any_ && !is_behind_comma) refuse("a comma is missing before this row");
      found_any_ = true;
      ++rows_;
      return true;
    }
  }
  if (in_list_) refuse("the list of rows is not closed");
  return false;
}

std::string_view JsonScanner::take() {
  leave();
  for (std::size_t depth = 0; move_to(depth == 0 ? kOutside : kInside); ++at_) {
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
    } else if (depth == 0) {
      break;
    }
    if (c == '\n') end_line();
  }
  return text().substr(0, at_);
}

// Moves to the next byte that is a stop. Returns false at the end.
template <typename Stops>
bool JsonScanner::move_to(const Stops& stops) {
  while (has_more()) {
    const std::string_view all = text();
    std::size_t at = at_;
    while (at < all.size() && !stops[static_cast<unsigned char>(all[at])]) ++at;
    at_ = at;
    if (at < all.size()) return true;
  }
  return false;
}

void JsonScanner::skip_string() {
  const Place begin = place();
  for (++at_; has_more();) {
    const std::string_view all = text();
    std::size_t at = at_;
    while ((at = place_in_string(all, at)) < all.size() && all[at] != '"') {
      at_ = at;
      if (all[at] == '\n') end_line();
      at += all[at] == '\\' ? 2 : 1;
    }
    at_ = at;
    if (at < all.size()) return;
  }
  throw DataError(described(begin) + ": a string is not closed");
}

std::string JsonScanner::described(const Place& place) const {
  if (text_) return file_ + ", row " + std::to_string(place.row) + " of the field";
  return file_ + ", line " + std::to_string(place.line) + ", column " +
         std::to_string(place.column);
}

void JsonScanner::refuse(const std::string& what) const {
  throw DataError(described(place()) + ": " + what);
}

// Drops the text before the current place.
void JsonScanner::leave() {
  if (text_) {
    left_in_text_ += at_;
  } else {
    window_.leave(at_);
  }
  left_ += at_;
  at_ = 0;
}

}  // namespace accelerate::detail
