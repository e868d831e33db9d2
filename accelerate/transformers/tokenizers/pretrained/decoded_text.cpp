#include "accelerate/transformers/tokenizers/pretrained/batch_encoding.h"

#include <initializer_list>
#include <string_view>
#include <utility>

#include "accelerate/transformers/tokenizers/unicode/code_points.h"
#include "accelerate/transformers/tokenizers/unicode/properties.h"

namespace accelerate::detail {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

// What Python's str.isspace() is true for: beside Unicode's White_Space also U+001C to U+001F.
bool is_python_space(char32_t c) {
  return has(c, kWhiteSpace) || (c >= 0x1C && c <= 0x1F);
}

// Does what Python's str.strip() does.
std::string_view stripped(std::string_view text) {
  for (std::size_t at = 0; !text.empty() && is_python_space(next_code_point(text, at)); at = 0)
    text.remove_prefix(at);
  for (std::size_t end = text.size();
       !text.empty() && is_python_space(previous_code_point(text, end)); end = text.size())
    text = text.substr(0, end);
  return text;
}

}  // namespace

std::string cleaned_up(std::string text) {
  for (const auto& [from, to] :
       std::initializer_list<std::pair<std::string_view, std::string_view>>{{" .", "."},
                                                                            {" ?", "?"},
                                                                            {" !", "!"},
                                                                            {" ,", ","},
                                                                            {" ' ", "'"},
                                                                            {" n't", "n't"},
                                                                            {" 'm", "'m"},
                                                                            {" 's", "'s"},
                                                                            {" 've", "'ve"},
                                                                            {" 're", "'re"}}) {
    replace_all(text, from, to);
  }
  return text;
}

std::string without_word_ends(std::string text) {
  replace_all(text, "</w>", " ");
  return std::string(stripped(text));
}

}  // namespace accelerate::detail
