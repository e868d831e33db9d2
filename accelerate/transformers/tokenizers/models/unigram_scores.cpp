#include "accelerate/transformers/tokenizers/models/unigram_scores.h"

#include <simdjson.h>

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

namespace accelerate::detail {
namespace {

constexpr int kGreatestPower = 308;

const std::array<double, kGreatestPower + 1>& powers_of_ten() {
  static const auto all = [] {
    std::array<double, kGreatestPower + 1> powers{};
    for (std::size_t i = 0; i < powers.size(); ++i) {
      const std::string spelled = "1e" + std::to_string(i);
      std::from_chars(spelled.data(), spelled.data() + spelled.size(), powers[i]);
    }
    return powers;
  }();
  return all;
}

double scaled(std::uint64_t significand, std::int64_t exponent) {
  auto value = static_cast<double>(significand);
  if (value == 0) return value;
  if (exponent > kGreatestPower) return std::numeric_limits<double>::infinity();
  // Where one power is not enough, the original takes several steps.
  for (; exponent < -kGreatestPower && value > 0; exponent += kGreatestPower)
    value /= powers_of_ten().back();
  if (value == 0) return value;
  const double power = powers_of_ten()[static_cast<std::size_t>(std::abs(exponent))];
  return exponent < 0 ? value / power : value * power;
}

class NumberReader {
 public:
  explicit NumberReader(std::string_view rest) : rest_(rest) {}

  double run() {
    const bool is_negative = take('-');
    exponent_ += add_digits();
    // The digits of a fraction begin with another attempt to fit, as in the original.
    if (take('.')) {
      const std::size_t before = rest_.size();
      const std::int64_t left_out = add_digits();
      exponent_ -= static_cast<std::int64_t>(before - rest_.size()) - left_out;
    }
    if (take('e') || take('E')) exponent_ += exponent();
    const double value = scaled(significand_, exponent_);
    return is_negative ? -value : value;
  }

 private:
  bool take(char c) {
    const bool is_there = rest_.starts_with(c);
    if (is_there) rest_.remove_prefix(1);
    return is_there;
  }

  [[nodiscard]] bool is_at_digit() const {
    return !rest_.empty() && '0' <= rest_[0] && rest_[0] <= '9';
  }

  // Returns how many digits were left out because they do not fit.
  std::int64_t add_digits() {
    constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
    std::int64_t left_out = 0;
    for (; is_at_digit(); rest_.remove_prefix(1)) {
      const auto digit = static_cast<std::uint64_t>(rest_[0] - '0');
      const bool fits =
          significand_ < kMost / 10 || (significand_ == kMost / 10 && digit <= kMost % 10);
      if (left_out == 0 && fits)
        significand_ = significand_ * 10 + digit;
      else
        ++left_out;
    }
    return left_out;
  }

  std::int64_t exponent() {
    constexpr std::int64_t kMost = 1'000'000'000;
    const bool is_negative = take('-');
    if (!is_negative) take('+');
    std::int64_t value = 0;
    for (; is_at_digit(); rest_.remove_prefix(1))
      value = std::min(kMost, value * 10 + (rest_[0] - '0'));
    return is_negative ? -value : value;
  }

  std::string_view rest_;
  std::uint64_t significand_ = 0;
  std::int64_t exponent_ = 0;
};

}  // namespace

double original_number(std::string_view digits) {
  return NumberReader(digits).run();
}

std::vector<double> original_scores(std::string_view document) {
  namespace json = simdjson::ondemand;
  const simdjson::padded_string padded(document);
  json::parser parser;
  json::document root;
  json::array pairs;
  std::vector<double> scores;
  if (parser.iterate(padded).get(root) != simdjson::SUCCESS ||
      root["model"]["vocab"].get(pairs) != simdjson::SUCCESS) {
    return {};
  }
  for (auto pair : pairs) {
    json::array parts;
    std::string_view digits;
    if (pair.get(parts) != simdjson::SUCCESS ||
        parts.at(1).raw_json_token().get(digits) != simdjson::SUCCESS) {
      return {};
    }
    scores.push_back(original_number(digits));
  }
  return scores;
}

}  // namespace accelerate::detail
