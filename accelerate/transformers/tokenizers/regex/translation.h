// Translates a regular expression of Oniguruma for PCRE2, and takes every set of characters out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "accelerate/transformers/tokenizers/regex/character_set.h"

namespace accelerate::detail {

/// A pattern in PCRE2's spelling. Each part is a text to copy, then perhaps a set of characters.
struct Translation {
  /// Stands for the characters that continue a grapheme cluster where they are in the text.
  static constexpr int kContinuing = -2;
  struct Part {
    std::string text;
    int set = -1;  ///< Which of `sets` follows the text; -1 for none, or kContinuing.
  };
  std::vector<Part> parts;
  std::vector<CharacterSet> sets;
  bool has_continuing = false;
};

/// Translates `pattern`. Throws ConfigError, with the place in the pattern, if it is malformed or
/// PCRE2 might read it differently.
[[nodiscard]] Translation translate(std::string_view pattern);
/// Returns a pattern that matches the grapheme clusters of a text from its beginning on.
[[nodiscard]] Translation translated_clusters();

}  // namespace accelerate::detail
