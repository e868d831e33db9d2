// What a reader takes for one character.
#pragma once

#include <cstddef>
#include <string_view>

namespace accelerate::detail {

/// Returns the end of the extended grapheme cluster that begins at byte `begin` of `text` (UTF-8).
/// Source: Unicode Standard Annex 29, rules GB3 to GB13.
[[nodiscard]] std::size_t end_of_grapheme(std::string_view text, std::size_t begin);

}  // namespace accelerate::detail
