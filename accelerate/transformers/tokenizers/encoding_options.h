// How encodings are truncated and padded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace accelerate {

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

}  // namespace accelerate
