// The characters of a pattern, and the sets that they name: [a-z], \s, \p{L}.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "accelerate/transformers/tokenizers/regex/character_set.h"

namespace accelerate::detail {

/// Where an escaped letter stands: some letters mean a set outside of brackets alone.
enum class Place { outside, in_brackets };

/// A pattern that is being read, one character after the other.
class PatternSource {
 public:
  explicit PatternSource(std::string_view pattern);

  [[nodiscard]] bool is_done() const { return at_ == pattern_.size(); }
  /// Throws ConfigError at the end.
  [[nodiscard]] char32_t peek() const;
  char32_t next();
  /// Skips `text` if it stands here.
  bool take(std::string_view text);
  [[nodiscard]] char32_t previous() const { return pattern_[at_ - 1]; }
  /// Reads a literal character, escaped or not.
  char32_t character(Place place);

  [[nodiscard]] std::size_t place() const { return at_; }
  void go_back(std::size_t place) { at_ = place; }
  /// Throws ConfigError "the pattern '…' has, before its character N, `what`".
  [[noreturn]] void refuse(const std::string& what) const;

 private:
  char32_t hexadecimal(std::size_t least, std::size_t most);
  char32_t escaped(Place place);
  char32_t octal(char32_t first, std::size_t most);
  [[nodiscard]] bool has_meaning(char32_t escaped, Place place) const;

  std::u32string pattern_;
  std::size_t at_ = 0;
};

/// Reads \s, \d, \w, \h, \p{…} or an opposite of these, or \N or \O outside of brackets; nullopt if
/// none stands here.
[[nodiscard]] std::optional<CharacterSet> read_escaped_set(PatternSource& source, Place place);
/// Reads a class in brackets.
[[nodiscard]] CharacterSet read_class(PatternSource& source, bool ignores_case);
/// Adds the other case of the letters of ASCII, and the other characters equal to them: ſ and K.
[[nodiscard]] CharacterSet with_other_case(const CharacterSet& set);

}  // namespace accelerate::detail
