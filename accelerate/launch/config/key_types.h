// What sections of configuration files are made of, beyond plain types.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <variant>

namespace accelerate {

/// A key that takes a boolean or a word: `downcast_bf16` is written both `false` and `'no'`.
using BoolOrWord = std::variant<bool, std::string>;

/// Maps a canonical key to the spelling in the file (an alias, or without the section's prefix).
/// Saving keeps the spelling, so that a round trip changes nothing.
using KeySpellings = std::map<std::string, std::string, std::less<>>;

}  // namespace accelerate
