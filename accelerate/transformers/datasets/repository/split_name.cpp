#include "accelerate/transformers/datasets/repository/chosen_files.h"

#include <algorithm>
#include <string>

#include "accelerate/base/text.h"

namespace accelerate::detail {

bool is_split_name(std::string_view name) {
  const auto is_word = [](const std::string& word) {
    return !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
      const char small = static_cast<char>(c | 0x20);
      return c == '_' || (c >= '0' && c <= '9') || (small >= 'a' && small <= 'z') ||
             static_cast<unsigned char>(c) >= 0x80;
    });
  };
  const auto words = split(name, '.');
  return std::all_of(words.begin(), words.end(), is_word);
}

}  // namespace accelerate::detail
