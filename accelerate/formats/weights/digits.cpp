#include "accelerate/formats/weights/digits.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace accelerate::detail {

std::string five_digits(std::size_t number) {
  std::array<char, 24> digits{};
  std::snprintf(digits.data(), digits.size(), "%05zu", number);
  return digits.data();
}

bool all_digits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace accelerate::detail
