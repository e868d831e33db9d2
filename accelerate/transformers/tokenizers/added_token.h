// Tokens that are matched literally in the text, so that the model never splits them.
#pragma once

#include <string>

namespace accelerate {

/// A token that is matched literally in the text, so that the model never splits it.
struct AddedToken {
  std::string content;
  bool special = false;      ///< decode() leaves it out if skip_special_tokens.
  bool lstrip = false;       ///< Includes the white space before it.
  bool rstrip = false;       ///< Includes the white space after it.
  bool single_word = false;  ///< Not matched inside a word.
  bool normalized = true;    ///< Searched for in the normalized text, otherwise in the original.
};

}  // namespace accelerate
