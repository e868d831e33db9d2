// The answers of Hugging Face `tokenizers` that tests/reference/unicode_tables.py wrote down.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/reference.h"

namespace accelerate::testing {

/// All rows but the heading, with their fields between spaces or tabs, as `split` says.
inline std::vector<std::vector<std::string>> unicode_rows(char split, std::size_t fields) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(read_reference("unicode_tables.txt"));
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string> row;
    std::istringstream parts(line);
    for (std::string part; std::getline(parts, part, split);) row.push_back(part);
    if (line[0] != '#' && row.size() == fields) rows.push_back(row);
  }
  return rows;
}

/// The 64-bit FNV-1a hash, a step for each whole number.
class Checksum {
 public:
  void add(std::initializer_list<std::uint64_t> numbers) {
    for (const std::uint64_t number : numbers) value_ = (value_ ^ number) * 0x100000001B3;
  }
  [[nodiscard]] std::string text() const {
    std::ostringstream out;
    out << std::hex;
    out.width(16);
    out.fill('0');
    out << value_;
    return out.str();
  }

 private:
  std::uint64_t value_ = 0xCBF29CE484222325;
};

/// Calls `visit` with each code point but surrogates.
template <typename Visit>
void each_code_point(Visit visit) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c < 0xD800 || c > 0xDFFF) visit(c);
  }
}

}  // namespace accelerate::testing
