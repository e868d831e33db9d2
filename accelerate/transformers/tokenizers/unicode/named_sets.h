// The sets of code points that regular expressions have names for, as tests/reference/regex_sets.py
// writes them into named_sets.cpp. Use regex/character_set.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace accelerate::detail::unicode {

struct NamedSet {
  /// In small letters, without spaces, hyphens and underscores.
  const char* name;
  std::uint32_t set;
};

/// Ordered by name. Several names may stand for one set.
extern const NamedSet named_sets[];
extern const std::size_t named_set_count;
/// Set n consists of the steps from set_begins[n] up to set_begins[n + 1].
extern const std::uint32_t set_begins[];
/// How many code points are outside of the set, then inside, then outside again, and so on.
extern const char32_t set_steps[];

}  // namespace accelerate::detail::unicode
