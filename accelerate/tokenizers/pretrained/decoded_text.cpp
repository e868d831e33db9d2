#include "accelerate/tokenizers/pretrained/decoded_text.h"

#include <initializer_list>
#include <string_view>
#include <utility>

#include "accelerate/tokenizers/text/aligned_text.h"

namespace accelerate::detail {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
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
  AlignedText whole(text, 0);
  whole.strip(/*left=*/true, /*right=*/true);
  return std::string(whole.view());
}

}  // namespace accelerate::detail
