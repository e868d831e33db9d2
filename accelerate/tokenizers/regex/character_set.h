// Sets of code points: what a class of a regular expression stands for.
#pragma once

#include <string_view>
#include <vector>

#include "accelerate/tokenizers/unicode/properties.h"

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

/// Returns the set of \s, \w or \d. The first call for any property costs 5 ms, once in a process.
[[nodiscard]] CharacterSet set_of(Property property);
/// Returns the set of \p{name}: a general category by its short or long name, Any, Assigned or
/// ASCII. Any other name gives an empty set. Case, spaces, hyphens and underscores do not count.
[[nodiscard]] CharacterSet set_of_category(std::string_view name);

}  // namespace accelerate::detail
