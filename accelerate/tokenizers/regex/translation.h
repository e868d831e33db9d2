// A regular expression of Oniguruma, with every set of characters taken out of it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "accelerate/tokenizers/regex/character_set.h"

namespace accelerate::detail {

/// PCRE2's spelling, in parts: a text as it stands, then a set of characters.
struct Translation {
  struct Part {
    std::string text;
    int set = -1;  ///< Which of `sets` follows the text; -1 for none.
  };
  std::vector<Part> parts;
  std::vector<CharacterSet> sets;
};

/// Throws ConfigError, with the place in the pattern, for what is no pattern and for what PCRE2
/// cannot be trusted to read alike.
[[nodiscard]] Translation translate(std::string_view pattern);

}  // namespace accelerate::detail
