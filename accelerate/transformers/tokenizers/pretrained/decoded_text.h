// What Transformers changes in a text after it has been decoded.
#pragma once

#include <string>

namespace accelerate::detail {

/// Removes the spaces that WordPiece puts before punctuation.
[[nodiscard]] std::string cleaned_up(std::string text);
/// Makes spaces of the ends of words, "</w>", and strips the text, as CLIPTokenizer does, whose
/// decoder leaves them in.
[[nodiscard]] std::string without_word_ends(std::string text);

}  // namespace accelerate::detail
