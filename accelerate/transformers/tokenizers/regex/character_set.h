// Sets of code points: what a class of a regular expression stands for.
#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "accelerate/transformers/tokenizers/unicode/tables.h"

namespace accelerate::detail {

/// Code points from `first` to `last`, both included.
struct CodeRange {
  char32_t first, last;
  bool operator==(const CodeRange&) const = default;
};

class CharacterSet {
 public:
  CharacterSet() = default;
  CharacterSet(char32_t first, char32_t last) : ranges_{{first, last}} {}
  explicit CharacterSet(char32_t c) : CharacterSet(c, c) {}
  /// `ranges` must be in ascending order, neither adjacent nor overlapping.
  explicit CharacterSet(std::vector<CodeRange> ranges) : ranges_(std::move(ranges)) {}
  static CharacterSet all() { return {0, unicode::kLimit - 1}; }

  CharacterSet& add(const CharacterSet& other);
  [[nodiscard]] CharacterSet inverted() const;
  [[nodiscard]] CharacterSet common_with(const CharacterSet& other) const;

  /// In ascending order, neither adjacent nor overlapping.
  [[nodiscard]] const std::vector<CodeRange>& ranges() const { return ranges_; }
  [[nodiscard]] bool operator==(const CharacterSet&) const = default;

 private:
  std::vector<CodeRange> ranges_;
};

/// Returns the set that Oniguruma knows by this name, as of \p{name}: a general category, a script, a
/// block ("InBasicLatin"), a binary property or a POSIX class; nullopt if there is none. Case,
/// spaces, hyphens and underscores do not count.
[[nodiscard]] std::optional<CharacterSet> named_set(std::string_view name);
/// The sets that patterns have no name for.
enum class HiddenSet {
  /// \w and \p{word} outside of brackets. Unlike named_set("word"), which is their set inside of
  /// brackets, it holds ² ³ ¹ ¼ ½ ¾.
  word,
  /// What \X consists of, in the terms of Unicode Standard Annex 29: Extend, ZWJ and SpacingMark;
  /// of these SpacingMark and ZWJ; Prepend; Control, CR and LF; Extended_Pictographic; L; V; T.
  extend,
  spacing,
  prepend,
  control,
  pictograph,
  lead,
  vowel,
  trail
};
[[nodiscard]] CharacterSet hidden_set(HiddenSet set);

}  // namespace accelerate::detail
