// Reading the files that tests/reference/sampler.py and loader.py wrote, in their notation.
#pragma once

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/base/text.h"
#include "accelerate/data/loader_options.h"

namespace accelerate::testing {

/// The lines of a reference file without the first, which is a comment.
inline std::vector<std::string> reference_rows(const std::string& name) {
  std::ifstream file(std::string(ACCELERATE_SOURCE_DIR) + "/tests/reference/" + name);
  if (!file) throw std::runtime_error("no reference file " + name);
  std::vector<std::string> rows;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with('#')) rows.push_back(line);
  }
  return rows;
}

/// The seed in the first line: "# torch 2.13.0, seed 1234: …".
inline std::uint64_t reference_seed(const std::string& name) {
  std::ifstream file(std::string(ACCELERATE_SOURCE_DIR) + "/tests/reference/" + name);
  std::string header;
  std::getline(file, header);
  return std::stoull(header.substr(header.find("seed ") + 5));
}

inline std::string text_of(const Indices& indices) {
  std::vector<std::string> parts;
  for (std::size_t index : indices) parts.push_back(std::to_string(index));
  return join(parts, ",");
}

/// "0,1;2,3" for {{0, 1}, {2, 3}}.
inline std::string text_of(const BatchList& batches) {
  std::vector<std::string> parts;
  for (const Indices& batch : batches) parts.push_back(text_of(batch));
  return join(parts, ";");
}

/// The inverse of text_of; "" is no batches.
inline BatchList parse_batches(std::string_view text) {
  BatchList batches;
  if (text.empty()) return batches;
  for (const std::string& batch : split(text, ';')) {
    batches.emplace_back();
    for (const std::string& index : split(batch, ',')) batches.back().push_back(std::stoull(index));
  }
  return batches;
}

/// 64-bit FNV-1a as 16 hexadecimal digits.
inline std::string fnv1a(std::string_view text) {
  std::uint64_t value = 0xCBF29CE484222325;
  for (unsigned char byte : text) value = (value ^ byte) * 0x100000001B3;
  char digits[17];
  std::snprintf(digits, sizeof(digits), "%016llx", static_cast<unsigned long long>(value));
  return digits;
}

/// One row, taken apart at blanks.
class Row {
 public:
  explicit Row(const std::string& line) : words_(split(line, ' ')) {}
  [[nodiscard]] const std::string& text(std::size_t i) const { return words_.at(i); }
  [[nodiscard]] std::int64_t number(std::size_t i) const { return std::stoll(words_.at(i)); }
  [[nodiscard]] bool flag(std::size_t i) const { return words_.at(i) == "1"; }
  /// "[…]" without the brackets.
  [[nodiscard]] std::string bracketed(std::size_t i) const {
    return words_.at(i).substr(1, words_.at(i).size() - 2);
  }

 private:
  std::vector<std::string> words_;
};

}  // namespace accelerate::testing
