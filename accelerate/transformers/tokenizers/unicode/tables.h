// The arrays that tests/reference/unicode_tables.py writes into tables.cpp. Use properties.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace accelerate::detail {

// clang-format off: one line for each major class.
/// The general categories of Unicode.
enum class Category : std::uint8_t {
  Lu, Ll, Lt, Lm, Lo,
  Mn, Mc, Me,
  Nd, Nl, No,
  Pc, Pd, Ps, Pe, Pi, Pf, Po,
  Sm, Sc, Sk, So,
  Zs, Zl, Zp,
  Cc, Cf, Cs, Co, Cn
};
// clang-format on

namespace unicode {

/// Code points from here on do not exist.
constexpr char32_t kLimit = 0x110000;
/// A three-stage table keeps equal blocks of 2^5 values once, and equal groups of 2^5 blocks too.
constexpr unsigned kStageBits = 5;
constexpr std::size_t kGroupCount = kLimit >> (2 * kStageBits);

/// The properties that are asked for most. The table holds each combination that occurs once.
struct Record {
  std::uint32_t properties;
  Category category;
  std::uint8_t combining_class;
};

/// Places in `mapping_pool`: 32 times the position plus the length; 0 where there is no mapping.
struct Mapping {
  std::uint32_t nfd, nfkd, lower;
};

struct Composition {
  char32_t first, second, composed;
};

extern const std::uint8_t record_groups[kGroupCount];
extern const std::uint16_t record_blocks[];
extern const std::uint8_t record_values[];
extern const Record records[];

extern const std::uint8_t script_groups[kGroupCount];
extern const std::uint16_t script_blocks[];
extern const std::uint8_t script_values[];

extern const std::uint8_t mapping_groups[kGroupCount];
extern const std::uint16_t mapping_blocks[];
extern const std::uint16_t mapping_values[];
extern const Mapping mappings[];
extern const char32_t mapping_pool[];

/// Ordered by `first`, then by `second`; Hangul is not in it.
extern const Composition compositions[];
extern const std::size_t composition_count;

/// Returns the value of `c` in a three-stage table.
template <typename Value>
[[nodiscard]] inline Value look_up(const std::uint8_t* groups, const std::uint16_t* blocks,
                                   const Value* values, char32_t c) {
  constexpr char32_t kMask = (1U << kStageBits) - 1;
  const std::size_t group = groups[c >> (2 * kStageBits)];
  const std::size_t block = blocks[group << kStageBits | (c >> kStageBits & kMask)];
  return values[block << kStageBits | (c & kMask)];
}

}  // namespace unicode
}  // namespace accelerate::detail
