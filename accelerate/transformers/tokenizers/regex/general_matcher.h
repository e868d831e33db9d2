// Matches any pattern through PCRE2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/transformers/tokenizers/regex/translation.h"

namespace accelerate::detail {

// The split patterns that nearly all published byte-level tokenizers use, as scanners.

/// Returns the end of the match that begins at byte `at` of `text`; `at` if no match begins there.
using Scanner = std::size_t (*)(std::string_view text, std::size_t at);

struct KnownPattern {
  std::string_view spelling;
  Scanner match;
  /// Returns the first place from `at` on where a match may begin. Set for patterns that match only
  /// parts of a text.
  Scanner likely = nullptr;
};

/// Returns the known pattern with this spelling, as its authors write it; nullptr if there is none.
[[nodiscard]] const KnownPattern* known_pattern(std::string_view spelling);

// The interface of what finds the matches of a regular expression.

/// Bytes from `begin` up to `end`.
struct Match {
  std::size_t begin, end;
  bool operator==(const Match&) const = default;
};

/// Finds the matches of one pattern.
class Matcher {
 public:
  virtual ~Matcher() = default;
  virtual void find_all(std::string_view text, std::vector<Match>& matches) const = 0;
};

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
  /// character is twice as large, and odd if the character continues a cluster.
  std::unique_ptr<GeneralMatcher> clusters_;
};

}  // namespace accelerate::detail
