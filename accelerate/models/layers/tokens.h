// Which tokens of a batch are computed, and how they stand in memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace accelerate::detail {

/// The tokens of a batch {rows, length}, in one of two layouts.
///
/// padded: as they came, {rows, length, …}; a mask keeps attention away from padding.
/// packed: the attended tokens alone, one row behind the other, {tokens, …}; attention runs row by
/// row and needs no mask. Layers that work on each token by itself need not know which it is.
///
/// Padding is more than half of what a batch of sentences of unequal lengths would compute.
class Tokens {
 public:
  struct Options {
    /// Tokens of a cache, which stand before the row's own and of which the mask speaks too.
    std::int64_t past = 0;
    /// Whether padding may be dropped.
    bool drops_padding = true;
    /// Whether something reads the first column of each row, also where it is padding.
    bool needs_first_column = false;
  };

  /// `mask`: {rows, past + length}, not zero where a token counts; {rows or 1, 1, length or 1,
  /// past + length}, added to scores or, of booleans, true where a query may look; or undefined,
  /// when all tokens count. Padding is dropped where the mask has two dimensions and the tokens of
  /// each row stand together. Throws UsageError for other shapes. Cost: copies a mask of two
  /// dimensions to the CPU.
  Tokens(std::int64_t rows, std::int64_t length, const at::Tensor& mask, const Options& options);

  /// One row of sequences that stand end to end, with these lengths: packed as it is.
  [[nodiscard]] static Tokens flattened(std::vector<std::int64_t> lengths);

  [[nodiscard]] bool is_packed() const { return !lengths_.empty(); }
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t length() const { return length_; }
  [[nodiscard]] std::int64_t past() const { return past_; }
  /// Of a packed batch: the tokens of each row or sequence.
  [[nodiscard]] const std::vector<std::int64_t>& lengths() const { return lengths_; }
  /// Of a padded batch: {rows, 1, length or 1, past + length}, as the constructor has it; undefined
  /// when all tokens count.
  [[nodiscard]] const at::Tensor& mask() const { return mask_; }
  /// Whether the mask is the caller's own of four dimensions, which leaves nothing to be added.
  [[nodiscard]] bool has_whole_mask() const { return has_whole_mask_; }

  /// `values`, {rows, length, …}, in this layout. Undefined stays so.
  [[nodiscard]] at::Tensor take(const at::Tensor& values) const;
  /// The opposite of take(): {rows, length, …}, zeros where padding was dropped.
  [[nodiscard]] at::Tensor restore(const at::Tensor& values) const;
  /// The first token of each row of `values`, which are in this layout: {rows, …}.
  [[nodiscard]] at::Tensor first(const at::Tensor& values) const;

 private:
  // False when padding has to stay.
  bool drop_padding(const at::Tensor& mask, bool needs_first_column);

  std::int64_t rows_, length_, past_;
  std::vector<std::int64_t> lengths_;
  /// Of the tokens that are kept, in {rows · length}; undefined if all are.
  at::Tensor places_;
  /// Of the first token of each row, among those kept.
  at::Tensor firsts_;
  at::Tensor mask_;
  bool has_whole_mask_ = false;
};

}  // namespace accelerate::detail
