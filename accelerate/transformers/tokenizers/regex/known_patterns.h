// The split patterns that nearly all published byte-level tokenizers use, as scanners.
#pragma once

#include <cstddef>
#include <string_view>

namespace accelerate::detail {

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

}  // namespace accelerate::detail
