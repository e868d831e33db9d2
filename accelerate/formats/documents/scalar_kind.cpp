// The implicit resolver of YAML 1.1 (https://yaml.org/type/), with PyYAML's two deviations: an
// exponent needs a sign, and a float needs a point. It is written by hand, because a regular
// expression engine could recurse too deeply on a megabyte of hostile text.
#include <algorithm>
#include <array>

#include "accelerate/formats/documents/document.h"

namespace accelerate {
namespace {

constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kDigitsAndLine = "0123456789_";

// Consumes a text from the left.
class Cursor {
 public:
  explicit Cursor(std::string_view rest) : rest_(rest) {}

  bool at_end() const { return rest_.empty(); }

  bool take(std::string_view any_of) {
    if (rest_.empty() || any_of.find(rest_.front()) == std::string_view::npos) return false;
    rest_.remove_prefix(1);
    return true;
  }

  bool take_word(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  // Takes at most `most` characters of `any_of`. Returns whether there were at least `least`.
  bool take_run(std::string_view any_of, std::size_t least,
                std::size_t most = std::string_view::npos) {
    std::size_t count = 0;
    while (count < most && take(any_of)) ++count;
    return count >= least;
  }

 private:
  std::string_view rest_;
};

template <std::size_t N>
bool one_of(std::string_view text, const std::array<std::string_view, N>& words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

bool is_bool(std::string_view text) {
  constexpr std::array<std::string_view, 18> kWords = {
      "yes",   "Yes",   "YES",   "no", "No", "NO", "true", "True", "TRUE",
      "false", "False", "FALSE", "on", "On", "ON", "off",  "Off",  "OFF"};
  return one_of(text, kWords);
}

bool is_null(std::string_view text) {
  constexpr std::array<std::string_view, 5> kWords = {"", "~", "null", "Null", "NULL"};
  return one_of(text, kWords);
}

// Takes the ":59:07" of a number in base 60; at least one such part is needed.
bool take_sexagesimal(Cursor& cursor) {
  bool any = false;
  while (cursor.take(":")) {
    const bool tens = cursor.take("012345");
    if (!cursor.take(kDigits) && !tens) return false;
    any = true;
  }
  return any;
}

bool is_prefixed_int(Cursor cursor, std::string_view prefix, std::string_view digits) {
  return cursor.take_word(prefix) && cursor.take_run(digits, 1) && cursor.at_end();
}

bool is_int(std::string_view text) {
  Cursor cursor(text);
  cursor.take("+-");
  if (is_prefixed_int(cursor, "0b", "01_") ||
      is_prefixed_int(cursor, "0x", "0123456789abcdefABCDEF_") ||
      is_prefixed_int(cursor, "0", "01234567_")) {
    return true;
  }
  if (cursor.take("0")) return cursor.at_end();
  if (!cursor.take("123456789")) return false;
  cursor.take_run(kDigitsAndLine, 0);
  return cursor.at_end() || (take_sexagesimal(cursor) && cursor.at_end());
}

bool ends_with_exponent(Cursor cursor) {
  if (cursor.at_end()) return true;
  return cursor.take("eE") && cursor.take("+-") && cursor.take_run(kDigits, 1) && cursor.at_end();
}

bool is_special_float(std::string_view text) {
  constexpr std::array<std::string_view, 3> kInfinities = {".inf", ".Inf", ".INF"};
  constexpr std::array<std::string_view, 3> kNans = {".nan", ".NaN", ".NAN"};
  if (one_of(text, kNans)) return true;
  if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
  return one_of(text, kInfinities);
}

bool is_float(std::string_view text) {
  if (is_special_float(text)) return true;
  Cursor cursor(text);
  if (cursor.take(".")) {
    return cursor.take(kDigits) && cursor.take_run(kDigitsAndLine, 0) && ends_with_exponent(cursor);
  }
  cursor.take("+-");
  if (!cursor.take(kDigits)) return false;
  cursor.take_run(kDigitsAndLine, 0);
  Cursor sexagesimal = cursor;
  if (take_sexagesimal(sexagesimal)) {
    return sexagesimal.take(".") && sexagesimal.take_run(kDigitsAndLine, 0) && sexagesimal.at_end();
  }
  return cursor.take(".") && cursor.take_run(kDigitsAndLine, 0) && ends_with_exponent(cursor);
}

// Whether only a time zone follows: "Z", "+1", or "-05:30".
bool ends_with_zone(Cursor cursor) {
  cursor.take_run(" \t", 0);
  if (cursor.take("Z")) return cursor.at_end();
  if (!cursor.take("+-") || !cursor.take_run(kDigits, 1, 2)) return false;
  if (cursor.take(":") && !cursor.take_run(kDigits, 2, 2)) return false;
  return cursor.at_end();
}

bool is_timestamp(std::string_view text) {
  Cursor cursor(text);
  const auto digits = [&](std::size_t least, std::size_t most) {
    return cursor.take_run(kDigits, least, most);
  };
  Cursor date(text);
  if (date.take_run(kDigits, 4, 4) && date.take("-") && date.take_run(kDigits, 2, 2) &&
      date.take("-") && date.take_run(kDigits, 2, 2) && date.at_end()) {
    return true;
  }
  if (!digits(4, 4) || !cursor.take("-") || !digits(1, 2) || !cursor.take("-") || !digits(1, 2)) {
    return false;
  }
  if (!cursor.take("Tt") && !cursor.take_run(" \t", 1)) return false;
  if (!digits(1, 2) || !cursor.take(":") || !digits(2, 2) || !cursor.take(":") || !digits(2, 2)) {
    return false;
  }
  if (cursor.take(".")) cursor.take_run(kDigits, 0);
  return cursor.at_end() || ends_with_zone(cursor);
}

}  // namespace

ScalarKind resolve_scalar(std::string_view text) {
  if (is_null(text)) return ScalarKind::null;
  if (is_bool(text)) return ScalarKind::boolean;
  if (is_int(text)) return ScalarKind::integer;
  if (is_float(text)) return ScalarKind::real;
  if (is_timestamp(text)) return ScalarKind::timestamp;
  if (text == "<<") return ScalarKind::merge;
  if (text == "=") return ScalarKind::value;
  return ScalarKind::text;
}

}  // namespace accelerate
