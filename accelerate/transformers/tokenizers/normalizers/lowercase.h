// Lower case, character by character, as Rust's char::to_lowercase.
#pragma once

#include <utility>
#include <vector>

#include "accelerate/transformers/tokenizers/text/aligned_text.h"
#include "accelerate/transformers/tokenizers/unicode/code_points.h"
#include "accelerate/transformers/tokenizers/unicode/properties.h"

namespace accelerate::detail {

/// Calls `visit(character)` for each character of the lower case of `c`.
template <typename Visit>
void each_lower(char32_t c, const Visit& visit) {
  const std::u32string_view lowered = lower_of(c);
  if (lowered.empty()) return visit(c);
  for (const char32_t one : lowered) visit(one);
}

inline void lowercase(AlignedText& text) {
  std::vector<Change> changes;
  const std::string_view view = text.view();
  for (std::size_t at = 0; at < view.size();) {
    int change = 0;
    each_lower(next_code_point(view, at),
               [&](char32_t c) { changes.push_back({c, std::exchange(change, 1)}); });
  }
  text.transform(changes);
}

}  // namespace accelerate::detail
