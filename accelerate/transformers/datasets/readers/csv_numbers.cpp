#include "accelerate/transformers/datasets/readers/csv_numbers.h"

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <system_error>

#include "accelerate/base/text.h"

namespace accelerate::detail {
namespace {

// A plain decimal number: an optional minus, digits, and maybe a point with digits behind it.
struct Decimal {
  bool is_negative = false;
  std::int64_t digits = 0;   // Without the point.
  std::size_t decimals = 0;  // How many of them are behind the point.
};

// Takes digits off `text`, and returns how many.
[[gnu::always_inline]] inline std::size_t take_digits(std::string_view& text, std::int64_t& value) {
  std::size_t count = 0;
  for (; count < text.size() && text[count] >= '0' && text[count] <= '9'; ++count)
    value = value * 10 + (text[count] - '0');
  text.remove_prefix(count);
  return count;
}

// Returns nullopt for other forms, and for more than `most_bytes` bytes, of which all digits fit.
[[gnu::always_inline]] inline std::optional<Decimal> plain_decimal(std::string_view text,
                                                                   std::size_t most_bytes) {
  if (text.size() > most_bytes) return std::nullopt;
  Decimal decimal{.is_negative = text.starts_with('-')};
  if (decimal.is_negative) text.remove_prefix(1);
  if (take_digits(text, decimal.digits) == 0) return std::nullopt;
  if (text.empty()) return decimal;
  if (text.front() != '.') return std::nullopt;
  text.remove_prefix(1);
  decimal.decimals = take_digits(text, decimal.digits);
  return decimal.decimals > 0 && text.empty() ? std::optional(decimal) : std::nullopt;
}

// A number may have spaces around it and a plus sign before it.
std::string_view bare_number(std::string_view text) {
  text = trim(text);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  return text;
}

}  // namespace

std::optional<std::int64_t> csv_integer(std::string_view text) {
  constexpr std::size_t kPlainBytes = 18;  // Below 2^63.
  const auto plain = plain_decimal(text, kPlainBytes);
  if (plain && plain->decimals > 0) return std::nullopt;
  if (plain) return plain->is_negative ? -plain->digits : plain->digits;
  text = bare_number(text);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<double> csv_float(std::string_view text) {
  // Up to 2^53 the digits are a float, as the power of ten is, so that the quotient of both is
  // rounded once, as it must be. Source: W. Clinger, "How to read floating point numbers".
  constexpr std::size_t kPlainBytes = 15;
  constexpr std::array kPowers = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6, 1e7,
                                  1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14};
  if (const auto plain = plain_decimal(text, kPlainBytes)) {
    const double value = static_cast<double>(plain->digits) / kPowers[plain->decimals];
    return plain->is_negative ? -value : value;
  }
  text = bare_number(text);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::invalid_argument || end != text.data() + text.size()) return std::nullopt;
  // Too large or too small: infinity or zero, as strtod returns.
  if (error == std::errc::result_out_of_range)
    return std::strtod(std::string(text).c_str(), nullptr);
  return value;
}

}  // namespace accelerate::detail
