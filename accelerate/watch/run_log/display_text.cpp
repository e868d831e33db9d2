#include "accelerate/watch/run_log/display_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>

#include "accelerate/base/untrusted_text.h"
#include "accelerate/base/utf8.h"

namespace accelerate::detail {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

template <typename... Values>
std::string format_numbers(const char* pattern, Values... values) {
  std::array<char, 128> text{};
  const int size = std::snprintf(text.data(), text.size(), pattern, values...);
  return {text.data(), std::min(static_cast<std::size_t>(size), text.size() - 1)};
}

// Whether `c` is one of Unicode's noncharacters, such as U+FFFE and U+FFFF.
bool is_no_character(char32_t c) {
  return (c & 0xfffe) == 0xfffe || (c >= 0xfdd0 && c <= 0xfdef);
}

bool is_blank(char32_t c) {
  return c == '\n' || c == '\r' || c == '\t';
}

std::string_view entity_of(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      return {};
  }
}

// Groups the digits before the decimal point in threes.
std::string grouped_digits(std::string digits) {
  const auto point = std::min(digits.find('.'), digits.size());
  const std::size_t first = digits.starts_with('-') ? 1 : 0;
  for (std::size_t i = point; i > first + 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

}  // namespace

std::string plain_line(std::string_view text, std::size_t most_bytes) {
  const bool cut = text.size() > most_bytes;
  std::string_view rest = fit_bytes(text, most_bytes);
  std::string line;
  line.reserve(rest.size());
  while (!rest.empty()) {
    const std::string_view before = rest;
    const auto c = take_code_point(rest);
    if (c && is_blank(*c)) {
      line += ' ';
    } else if (!c || is_obeyed_by_terminals(*c) || *c == 0xfeff || is_no_character(*c)) {
      line += kReplacement;
    } else {
      line += before.substr(0, before.size() - rest.size());
    }
  }
  return cut ? line + "…" : line;
}

std::string html_text(std::string_view text, std::size_t most_bytes) {
  std::string escaped;
  for (const char c : plain_line(text, most_bytes)) {
    const auto entity = entity_of(c);
    if (entity.empty()) {
      escaped += c;
    } else {
      escaped += entity;
    }
  }
  return escaped;
}

std::string ascii_line(std::string_view text, std::size_t most_bytes) {
  const std::string plain = plain_line(text, most_bytes);
  std::string line;
  for (std::string_view rest = plain; !rest.empty();) {
    const char32_t c = take_code_point(rest).value_or('?');
    line += c < 0x80 ? static_cast<char>(c) : c == U'…' ? '~' : '?';
  }
  return line;
}

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  const double size = std::abs(value);
  if (size >= 1e4 && size < 1e15) return grouped_digits(format_numbers("%.0f", value));
  return format_numbers("%.4g", value);
}

std::string grouped_text(std::int64_t value) {
  return grouped_digits(std::to_string(value));
}

std::string scaled_text(double value) {
  constexpr std::array<const char*, 6> kPowers = {"", "k", "M", "G", "T", "P"};
  if (!std::isfinite(value)) return number_text(value);
  std::size_t power = 0;
  for (; std::abs(value) >= 999.5 && power + 1 < kPowers.size(); ++power) value /= 1000;
  return format_numbers("%.3g", value) + kPowers[power];
}

std::string duration_text(double seconds) {
  constexpr long long kMinute = 60, kHour = 3600, kDay = 86400;
  seconds = std::clamp(seconds, 0.0, 1e11);
  if (seconds < 10) return format_numbers("%.2g s", seconds);
  const auto whole = std::llround(seconds);
  if (whole < kMinute) return format_numbers("%lld s", whole);
  if (whole < kHour) return format_numbers("%lld min %02lld s", whole / kMinute, whole % kMinute);
  if (whole < kDay)
    return format_numbers("%lld h %02lld min", whole / kHour, whole % kHour / kMinute);
  return format_numbers("%lld d %02lld h", whole / kDay, whole % kDay / kHour);
}

std::string time_text(std::optional<double> unix_seconds) {
  constexpr double kLatest = 253'402'300'799;  // The end of the year 9999.
  if (!unix_seconds || !(*unix_seconds >= 0 && *unix_seconds <= kLatest)) return "";
  const auto seconds = static_cast<std::time_t>(*unix_seconds);
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  std::array<char, 64> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &utc);
  return text.data();
}

}  // namespace accelerate::detail
