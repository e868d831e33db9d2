#include "accelerate/transformers/datasets/random/numpy_generator.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <numeric>

namespace accelerate::detail {
namespace {

// SeedSequence spreads the bits of a seed over any number of words.
class SeedSequence {
 public:
  explicit SeedSequence(std::uint64_t seed) {
    const std::array<std::uint32_t, 2> words{static_cast<std::uint32_t>(seed),
                                             static_cast<std::uint32_t>(seed >> 32)};
    // A missing word counts as 0.
    for (std::size_t i = 0; i < pool_.size(); ++i)
      pool_[i] = hashed(i < words.size() ? words[i] : 0);
    for (std::size_t from = 0; from < pool_.size(); ++from) {
      for (std::size_t to = 0; to < pool_.size(); ++to) {
        if (from != to) pool_[to] = mixed(pool_[to], hashed(pool_[from]));
      }
    }
  }

  std::array<std::uint64_t, 4> four_words() const {
    std::array<std::uint64_t, 4> words{};
    std::uint32_t constant = 0x8b51f9dd;
    for (std::size_t i = 0; i < 2 * words.size(); ++i) {
      std::uint32_t value = pool_[i % pool_.size()] ^ constant;
      constant *= 0x58f38ded;
      value *= constant;
      value ^= value >> 16;
      words[i / 2] |= static_cast<std::uint64_t>(value) << (32 * (i % 2));
    }
    return words;
  }

 private:
  std::uint32_t hashed(std::uint32_t value) {
    value ^= constant_;
    constant_ *= 0x931e8875;
    value *= constant_;
    return value ^ value >> 16;
  }

  static std::uint32_t mixed(std::uint32_t one, std::uint32_t other) {
    const std::uint32_t result = 0xca01f9dd * one - 0x4973f715 * other;
    return result ^ result >> 16;
  }

  std::array<std::uint32_t, 4> pool_{};
  std::uint32_t constant_ = 0x43b0d7e5;
};

}  // namespace

NumpyGenerator::NumpyGenerator(std::uint64_t seed) {
  const auto [state_high, state_low, increment_high, increment_low] =
      SeedSequence(seed).four_words();
  increment_ = (static_cast<Wide>(increment_high) << 64 | increment_low) << 1 | 1;
  step();
  state_ += static_cast<Wide>(state_high) << 64 | state_low;
  step();
}

void NumpyGenerator::step() {
  constexpr Wide kMultiplier =
      static_cast<Wide>(2549297995355413924ULL) << 64 | 4865540595714422341ULL;
  state_ = state_ * kMultiplier + increment_;
}

std::uint64_t NumpyGenerator::next_uint64() {
  step();
  const auto folded = static_cast<std::uint64_t>(state_ >> 64) ^ static_cast<std::uint64_t>(state_);
  return std::rotr(folded, static_cast<int>(state_ >> 122));
}

std::uint32_t NumpyGenerator::next_uint32() {
  has_half_ = !has_half_;
  if (!has_half_) return half_;
  const std::uint64_t whole = next_uint64();
  half_ = static_cast<std::uint32_t>(whole >> 32);
  return static_cast<std::uint32_t>(whole);
}

// Lemire's method: takes the upper half of a product, and draws again where some numbers would be
// favoured.
std::uint64_t NumpyGenerator::bounded(std::uint64_t most) {
  constexpr std::uint64_t kNarrow = std::numeric_limits<std::uint32_t>::max();
  if (most == 0) return 0;
  if (most == kNarrow) return next_uint32();
  if (most < kNarrow) {
    const std::uint64_t count = most + 1, least = (kNarrow - most) % count;
    std::uint64_t product = next_uint32() * count;
    while (static_cast<std::uint32_t>(product) < least) product = next_uint32() * count;
    return product >> 32;
  }
  if (most == std::numeric_limits<std::uint64_t>::max()) return next_uint64();
  const std::uint64_t count = most + 1,
                      least = (std::numeric_limits<std::uint64_t>::max() - most) % count;
  Wide product = static_cast<Wide>(next_uint64()) * count;
  while (static_cast<std::uint64_t>(product) < least)
    product = static_cast<Wide>(next_uint64()) * count;
  return static_cast<std::uint64_t>(product >> 64);
}

// Draws as many bits as `most` has, and draws again if the number exceeds `most`.
std::uint64_t NumpyGenerator::interval(std::uint64_t most) {
  if (most == 0) return 0;
  const bool is_wide = most > std::numeric_limits<std::uint32_t>::max();
  const std::uint64_t mask = ~std::uint64_t{0} >> std::countl_zero(most);
  for (;;) {
    const std::uint64_t value = (is_wide ? next_uint64() : next_uint32()) & mask;
    if (value <= most) return value;
  }
}

std::vector<std::uint64_t> NumpyGenerator::permutation(std::size_t count) {
  std::vector<std::uint64_t> values(count);
  std::iota(values.begin(), values.end(), std::uint64_t{0});
  shuffle(std::span(values));
  return values;
}

// Floyd's method, then a shuffle.
std::vector<std::uint64_t> NumpyGenerator::choice(std::size_t count, std::size_t size) {
  std::vector<std::uint64_t> chosen;
  for (std::size_t i = count - size; i < count; ++i) {
    const std::uint64_t value = bounded(i);
    chosen.push_back(std::ranges::find(chosen, value) == chosen.end() ? value : i);
  }
  for (std::size_t i = chosen.size(); i-- > 1;) std::swap(chosen[i], chosen[bounded(i)]);
  return chosen;
}

}  // namespace accelerate::detail
