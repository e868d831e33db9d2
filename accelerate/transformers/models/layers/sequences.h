// Which sequences stand in the rows of a batch, as their positions tell.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <limits>
#include <vector>

namespace accelerate::detail {

/// Stands for the position of padding, and of a token whose position was not given.
inline constexpr std::int64_t kNoPosition = std::numeric_limits<std::int64_t>::min();

/// The position of each token of each row.
using RowPositions = std::vector<std::vector<std::int64_t>>;

/// For each row: the places where sequences begin behind the row's own beginning, rising. Empty:
/// every row is one sequence.
using SequenceBegins = std::vector<std::vector<std::int64_t>>;

/// Which token begins a sequence of its own.
enum class SequenceRule : std::uint8_t {
  /// One whose position is not greater than the position before it.
  restarts,
  /// One whose position is not the position before it plus 1, as in Transformers' decoders. Behind
  /// padding, where positions may or may not have counted the padding, `restarts` holds.
  jumps,
};

/// Appends the positions of a call's tokens to `rows`, one list a row. `position_ids`: integers {T}
/// or {1 or B, T}; undefined if they were not given. `counts`: {B, T}, 0 at padding, or undefined.
/// Throws UsageError for another shape of position_ids. Cost: copies both to the CPU.
void append_positions(RowPositions& rows, std::int64_t length, const at::Tensor& position_ids,
                      const at::Tensor& counts);

/// Returns where sequences begin. Source: `find_packed_sequence_indices` in `masking_utils.py` of
/// Transformers.
[[nodiscard]] SequenceBegins sequences_in(const RowPositions& positions, SequenceRule rule);

/// Returns {rows, 1, length, keys}: true where both tokens are of one sequence. The last `length`
/// of `keys` tokens ask.
[[nodiscard]] at::Tensor same_sequence(const SequenceBegins& begins, std::int64_t length,
                                       std::int64_t keys);

}  // namespace accelerate::detail
