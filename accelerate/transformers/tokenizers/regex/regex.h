// Regular expressions of a tokenizer.json, in the dialect of Oniguruma as far as equal results can
// be guaranteed.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accelerate/transformers/tokenizers/regex/general_matcher.h"

namespace accelerate::detail {

/// Immutable; copies share what was compiled, and several threads may use one.
class Regex {
 public:
  /// The patterns of GPT-2, Llama 3, Qwen 2, o200k, Tekken and DeepSeek run as scanners written by
  /// hand, all others through PCRE2. Throws ConfigError for a malformed pattern, and for anything
  /// that PCRE2 might read unlike Oniguruma: back references, conditions, …
  /// Cost: 5 to 10 ms for other patterns, nothing for the known ones.
  [[nodiscard]] static Regex compile(const std::string& pattern);
  /// As compile(), but always through PCRE2. The scanners are compared with it.
  [[nodiscard]] static Regex compile_general(const std::string& pattern);

  /// Appends the matches in `text`, well-formed UTF-8, in order. A match may be empty, but not
  /// directly after another match. Throws DataError when a match takes more than ten million steps
  /// and 64 a character. Cost: 150 to 250 MB/s for the known patterns, 20 to 100 MB/s for others.
  void find_all(std::string_view text, std::vector<Match>& matches) const {
    matcher_->find_all(text, matches);
  }

 private:
  explicit Regex(std::shared_ptr<const Matcher> matcher) : matcher_(std::move(matcher)) {}
  std::shared_ptr<const Matcher> matcher_;
};

}  // namespace accelerate::detail
