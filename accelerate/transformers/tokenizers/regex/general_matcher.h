// Matches any pattern through PCRE2.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/transformers/tokenizers/regex/matcher.h"
#include "accelerate/transformers/tokenizers/regex/translation.h"

namespace accelerate::detail {

/// Numbers the kinds of characters that a pattern tells apart. PCRE2 gets text and pattern spelled
/// in these numbers, one byte per character. So only our own tables say what a letter is, and PCRE2
/// sees bytes, with which it is fastest.
class GeneralMatcher : public Matcher {
 public:
  explicit GeneralMatcher(const std::string& pattern);
  ~GeneralMatcher() override;

  void find_all(std::string_view text, std::vector<Match>& matches) const override;

 private:
  struct Program;
  GeneralMatcher(const Translation& translation, const std::string& pattern);
  void spell(std::string_view text, std::string& kinds) const;

  std::string pattern_;
  /// The kind of each code point.
  std::vector<std::uint8_t> kinds_;
  std::unique_ptr<Program> program_;
  /// Finds the grapheme clusters of a text, if the pattern asks for them. Then the kind of a
  /// character is twice as large, and odd if the character goes on a cluster.
  std::unique_ptr<GeneralMatcher> clusters_;
};

}  // namespace accelerate::detail
