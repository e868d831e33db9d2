// Which tokens of a batch are computed, and how they are laid out in memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace accelerate::detail {

/// The tokens of a batch {rows, length}, in one of two layouts.
///
/// padded: as given, {rows, length, …}; a mask keeps attention away from padding.
/// packed: the attended tokens alone, one row after the other, {tokens, …}; attention runs row by
/// row and needs no mask. Layers that work on each token separately need not know the layout.
///
/// With sentences of unequal lengths, padding is more than half of the computation of a batch.
class Tokens {
 public:
  struct Options {
    /// The number of tokens in a cache. They stand before a row's own tokens, and the mask covers
    /// them too.
    std::int64_t past = 0;
    /// Whether padding may be dropped.
    bool drops_padding = true;
    /// Whether something reads the first column, even in rows where it is padding.
    bool needs_first_column = false;
  };

  /// `mask` has one of three forms. {rows, past + length}: not zero where a token counts.
  /// {rows or 1, 1, length or 1, past + length}: booleans, true where a query may look, or numbers
  /// that are added to scores. Undefined: all tokens count. Padding is dropped if the mask has two
  /// dimensions and the tokens of each row stand together. Throws UsageError for other shapes.
  /// Cost: copies a mask of two dimensions to the CPU.
  Tokens(std::int64_t rows, std::int64_t length, const at::Tensor& mask, const Options& options);

  /// Returns one row of sequences that stand end to end, with these lengths: it is packed already.
  [[nodiscard]] static Tokens flattened(std::vector<std::int64_t> lengths);

  [[nodiscard]] bool is_packed() const { return !lengths_.empty(); }
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t length() const { return length_; }
  [[nodiscard]] std::int64_t past() const { return past_; }
  /// In a packed batch: the number of tokens of each row or sequence.
  [[nodiscard]] const std::vector<std::int64_t>& lengths() const { return lengths_; }
  /// In a padded batch: the constructor's mask, as {rows or 1, 1, length or 1, past + length};
  /// undefined when all tokens count.
  [[nodiscard]] const at::Tensor& mask() const { return mask_; }
  /// Whether the caller gave a mask of four dimensions, to which nothing is added.
  [[nodiscard]] bool has_whole_mask() const { return has_whole_mask_; }

  /// Returns `values`, {rows, length, …}, in this layout. An undefined tensor stays undefined.
  [[nodiscard]] at::Tensor take(const at::Tensor& values) const;
  /// The opposite of take(): returns {rows, length, …}, with zeros where padding was dropped.
  [[nodiscard]] at::Tensor restore(const at::Tensor& values) const;
  /// Returns the first token of each row of `values`, {rows, …}. `values` is in this layout.
  [[nodiscard]] at::Tensor first(const at::Tensor& values) const;

 private:
  // Drops padding. Returns false if padding has to stay.
  bool drop_padding(const at::Tensor& mask, bool needs_first_column);

  std::int64_t rows_, length_, past_;
  std::vector<std::int64_t> lengths_;
  /// The places of kept tokens in {rows · length}; undefined if all tokens are kept.
  at::Tensor places_;
  /// The place of each row's first token among the kept tokens.
  at::Tensor firsts_;
  at::Tensor mask_;
  bool has_whole_mask_ = false;
};

}  // namespace accelerate::detail
