// Where a text may be cut into parts that no token crosses, for models without a pre-tokenizer.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <unordered_set>

#include "accelerate/transformers/tokenizers/unicode/code_points.h"

namespace accelerate::detail {

/// SentencePiece's letter for a blank begins nearly every token that holds it. A text may be cut
/// before it wherever no token joins it to the character before. So the words of a long text are
/// tokenized one by one, and can be remembered.
class BlankCuts {
 public:
  static constexpr std::string_view kBlank = "\u2581";

  /// Notes that a token may hold `before` and `behind`, which follow each other.
  void join(std::string_view before, std::string_view behind) {
    if (!behind.starts_with(kBlank) || before.empty()) return;
    std::size_t end = before.size();
    const char32_t last = previous_code_point(before, end);
    if (last < ascii_.size()) ascii_[last] = true;
    joined_.insert(last);
  }

  /// Notes what the token `word` joins.
  void add_token(std::string_view word) {
    for (std::size_t at = word.find(kBlank, 1); at != std::string_view::npos;
         at = word.find(kBlank, at + 1))
      join(word.substr(0, at), kBlank);
  }

  /// Returns the end of the part of `text` that begins at `begin`.
  [[nodiscard]] std::size_t end_of_part(std::string_view text, std::size_t begin) const {
    for (std::size_t at = begin + 1;; ++at) {
      at = text.find(kBlank, at);
      if (at == std::string_view::npos) return text.size();
      std::size_t end = at;
      const char32_t last = previous_code_point(text, end);
      if (!(last < ascii_.size() ? ascii_[last] : joined_.contains(last))) return at;
    }
  }

 private:
  std::array<bool, 128> ascii_{};
  std::unordered_set<char32_t> joined_;
};

}  // namespace accelerate::detail
