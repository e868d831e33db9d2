// The tokens of a text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace accelerate {

// How encodings are truncated and padded.

enum class Side { left, right };
enum class TruncationStrategy { longest_first, only_first, only_second };

struct TruncationOptions {
  std::size_t max_length = 512;
  std::size_t stride = 0;  ///< Tokens that each overflowing part shares with the part before it.
  TruncationStrategy strategy = TruncationStrategy::longest_first;
  Side side = Side::right;
};

struct PaddingOptions {
  std::size_t length = 0;       ///< 0: as long as the longest text of the batch.
  std::size_t multiple_of = 0;  ///< 0: any length.
  Side side = Side::right;
  std::uint32_t id = 0, type_id = 0;
  std::string token = "[PAD]";
};

/// Where a token comes from: from `begin` up to `end`, in code points or bytes of its text.
struct Offsets {
  std::uint32_t begin = 0, end = 0;
  bool operator==(const Offsets&) const = default;
};

/// No word or no text, for special tokens and padding.
inline constexpr std::int32_t kNone = -1;

/// The tokens of a text or a pair of texts: vectors of equal length, one entry a token.
struct Encoding {
  std::vector<std::uint32_t> ids;
  std::vector<std::uint32_t> type_ids;
  std::vector<std::string> tokens;
  std::vector<Offsets> offsets;
  std::vector<std::int32_t> words;      ///< The number of its piece of the text, or kNone.
  std::vector<std::int32_t> sequences;  ///< 0, 1 for the second text of a pair, or kNone.
  std::vector<std::uint8_t> special_tokens_mask;
  std::vector<std::uint8_t> attention_mask;
  /// What truncation cut off, in parts of at most max_length tokens each.
  std::vector<Encoding> overflowing;

  [[nodiscard]] std::size_t size() const { return ids.size(); }
};

}  // namespace accelerate
