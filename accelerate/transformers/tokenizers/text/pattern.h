// What a text is searched for: a literal string or a regular expression.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/transformers/tokenizers/json_view.h"
#include "accelerate/transformers/tokenizers/regex/regex.h"
#include "accelerate/transformers/tokenizers/text/aligned_text.h"

namespace accelerate::detail {

class Pattern {
 public:
  /// Reads {"String": "…"}, {"Regex": "…"} or a string.
  explicit Pattern(const JsonView& json);
  explicit Pattern(std::string text) : text_(std::move(text)) {}

  /// Returns the matches in `text`, in order and without overlap. Throws DataError when a match
  /// takes too long.
  [[nodiscard]] std::vector<Span> find_all(std::string_view text) const;
  /// Appends the matches in `text` to `matches`. Throws as above.
  void find_all(std::string_view text, std::vector<Match>& matches) const;

 private:
  std::string text_;
  std::optional<Regex> regex_;
};

}  // namespace accelerate::detail
