// What becomes of the delimiters at which a text is cut.
#pragma once

#include <vector>

#include "accelerate/transformers/tokenizers/json_view.h"
#include "accelerate/transformers/tokenizers/regex/regex.h"
#include "accelerate/transformers/tokenizers/text/aligned_text.h"

namespace accelerate::detail {

enum class Behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

[[nodiscard]] Behavior read_behavior(const JsonView& json);

/// A part of a piece: a delimiter, or the text between two delimiters.
struct CutPart {
  Span range;
  bool is_delimiter;
};

/// Appends the pieces that `behavior` makes of `parts`, which follow each other without gaps.
void append_pieces(const std::vector<CutPart>& parts, Behavior behavior, std::vector<Span>& pieces);

/// Appends the pieces that Behavior::isolated makes of `range`: each match, and the text between
/// matches.
void append_isolated(const Span& range, const std::vector<Match>& matches,
                     std::vector<Span>& pieces);

}  // namespace accelerate::detail
