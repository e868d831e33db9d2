#include "accelerate/transformers/models/generation/text_stream.h"

#include <algorithm>
#include <array>
#include <utility>

#include "accelerate/base/utf8.h"

namespace accelerate::detail {
namespace {

// CJK unified ideographs, with their extensions and the compatibility forms.
constexpr std::array<std::pair<char32_t, char32_t>, 8> kIdeographs{{{0x4E00, 0x9FFF},
                                                                    {0x3400, 0x4DBF},
                                                                    {0x20000, 0x2A6DF},
                                                                    {0x2A700, 0x2B73F},
                                                                    {0x2B740, 0x2B81F},
                                                                    {0x2B820, 0x2CEAF},
                                                                    {0xF900, 0xFAFF},
                                                                    {0x2F800, 0x2FA1F}}};

bool ends_with_ideograph(std::string_view text) {
  std::size_t begin = text.size();
  while (begin > 0 && (static_cast<unsigned char>(text[--begin]) & 0xC0U) == 0x80U) {
  }
  std::string_view last = text.substr(begin);
  if (last.empty()) return false;
  const auto point = take_code_point(last);
  return point && std::ranges::any_of(kIdeographs, [&](const auto& range) {
           return range.first <= *point && *point <= range.second;
         });
}

}  // namespace

TextStream::TextStream(PreTrainedTokenizer tokenizer, Sink sink)
    : tokenizer_(std::move(tokenizer)), sink_(std::move(sink)) {}

void TextStream::put(std::int64_t token) {
  tokens_.push_back(token);
  const std::string all = text();
  if (all.ends_with('\n')) {
    end();
  } else if (ends_with_ideograph(all)) {
    give(all);
  } else {
    const std::size_t space = all.rfind(' ');
    if (space != std::string::npos) give(std::string_view(all).substr(0, space + 1));
  }
}

void TextStream::end() {
  if (!tokens_.empty()) give(text());
  tokens_.clear();
  given_ = 0;
}

std::string TextStream::text() const {
  return tokenizer_.decode(tokens_, /*skip_special_tokens=*/true);
}

void TextStream::give(std::string_view text) {
  if (text.size() <= given_) return;
  sink_(text.substr(given_));
  given_ = text.size();
}

}  // namespace accelerate::detail
