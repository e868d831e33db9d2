// Tokens that are found as they stand, whatever the model would make of them.
#pragma once

#include <string>

namespace accelerate {

/// A token that is found as it stands, whatever the model would make of it.
struct AddedToken {
  std::string content;
  bool special = false;      ///< Left out by decode(…, skip_special_tokens).
  bool lstrip = false;       ///< Takes the white space before it.
  bool rstrip = false;       ///< Takes the white space behind it.
  bool single_word = false;  ///< Not found within a word.
  bool normalized = true;    ///< Looked for in the normalized text.
};

}  // namespace accelerate
