// What sections of configuration files are made of, beyond plain types. A Word converts from its
// text: `.mixed_precision = "bf16"`.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <variant>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/launch/config/enums.h"

namespace accelerate {

/// A key that takes a boolean or a word: `downcast_bf16` is written both `false` and `'no'`.
using BoolOrWord = std::variant<bool, std::string>;

/// Maps a canonical key to the spelling in the file (an alias, or without the section's prefix).
/// Saving keeps the spelling, so that a round trip changes nothing.
using KeySpellings = std::map<std::string, std::string, std::less<>>;

/// A field that takes one of the words of `Enum`, case ignored, or the enumerator. Throws
/// ConfigError for another word; the message lists the allowed words and the nearest one.
template <detail::WordedEnum Enum>
class Word {
 public:
  // NOLINTBEGIN(google-explicit-constructor): `.eval_strategy = "epoch"` is the point.
  Word(Enum value) : value_(value) {}
  Word(const char* word) : Word(std::string_view(word)) {}
  Word(const std::string& word) : Word(std::string_view(word)) {}
  Word(std::string_view word) {
    const auto value = parse_enum<Enum>(word);
    if (!value) {
      throw ConfigError("'" + std::string(word) + "' is not one of " +
                        join(enum_names<Enum>(), ", ") + "." +
                        did_you_mean(std::string(word), enum_names<Enum>()));
    }
    value_ = *value;
  }
  operator Enum() const { return value_; }
  // NOLINTEND(google-explicit-constructor)

  friend bool operator==(const Word& a, const Word& b) { return a.value_ == b.value_; }
  friend bool operator==(const Word& a, Enum b) { return a.value_ == b; }
  [[nodiscard]] std::string_view text() const { return accelerate::to_string(value_); }
  friend std::string_view to_string(const Word& word) { return word.text(); }

 private:
  Enum value_{};
};

}  // namespace accelerate
