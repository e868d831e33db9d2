// The split patterns that nearly all published byte-level tokenizers use, as scanners.
#pragma once

#include <cstddef>
#include <string_view>

namespace accelerate::detail {

/// The end of the match that begins at byte `at` of `text`; `at` itself if none does.
using Scanner = std::size_t (*)(std::string_view text, std::size_t at);

struct KnownPattern {
  std::string_view spelling;
  Scanner match;
  /// The first place from `at` on where a match may begin, for patterns that match here and there.
  Scanner likely = nullptr;
};

/// A pattern spelled as its authors do; nullptr if there is none.
[[nodiscard]] const KnownPattern* known_pattern(std::string_view spelling);

}  // namespace accelerate::detail
