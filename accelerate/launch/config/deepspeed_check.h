// Checks a file of DeepSpeed key by key.
#pragma once

#include <string>
#include <vector>

#include "accelerate/formats/documents/document.h"

namespace accelerate::detail {

/// Whether the value is the text "auto", which leaves a key to the program.
[[nodiscard]] bool is_auto_word(const Node& value);

/// Checks every key of `root`, the map of the file `name`, against deepspeed_keys(). Returns the
/// keys that a program asks for in another way, with that way in brackets. Throws ConfigError, with
/// the line, for a key that DeepSpeed does not have, a value that does not fit, and a key that is
/// refused.
[[nodiscard]] std::vector<std::string> check_deepspeed_keys(const Node& root,
                                                            const std::string& name);

}  // namespace accelerate::detail
