// Which tokens of a batch are computed, and how they are laid out in memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "accelerate/tensor/compat/varlen_attention.h"
#include "accelerate/transformers/models/layers/sequences.h"

namespace accelerate::detail {

/// The tokens of a batch {rows, length}, in one of two layouts.
///
/// padded: as given, {rows, length, …}; a mask keeps attention away from padding and from other
/// sequences of the row.
/// packed: the attended tokens alone, one sequence after the other, {tokens, …}; attention runs
/// sequence by sequence and needs no mask. Layers that work on each token separately need not know
/// the layout.
///
/// With sentences of unequal lengths, padding is more than half of the computation of a batch.
class Tokens {
 public:
  struct Options {
    /// The number of tokens in a cache. They stand before a row's own tokens, and the mask covers
    /// them too.
    std::int64_t past = 0;
    /// Whether the tokens may be packed at all. If not, a mask keeps sequences apart.
    bool packs = true;
    /// Whether padding may be dropped. Needs `packs`.
    bool drops_padding = true;
    /// Whether something reads the first column, even in rows where it is padding.
    bool needs_first_column = false;
    /// Where sequences begin in the rows, tokens in the cache included.
    SequenceBegins begins = {};
    /// Where the tokens are computed.
    c10::Device device = at::kCPU;
  };

  /// `mask` has one of three forms. {rows, past + length}: not zero where a token counts.
  /// {rows or 1, 1, length or 1, past + length}: booleans, true where a query may look, or numbers
  /// that are added to scores; it then says all, whatever the sequences are. Undefined: all tokens
  /// count. Padding is dropped if the mask has two dimensions and the tokens of each row stand
  /// together. Throws UsageError for other shapes.
  /// Cost: copies a mask of two dimensions to the CPU.
  Tokens(std::int64_t rows, std::int64_t length, const at::Tensor& mask, const Options& options);

  [[nodiscard]] bool is_packed() const { return !lengths_.empty(); }
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t length() const { return length_; }
  [[nodiscard]] std::int64_t past() const { return past_; }
  /// In a packed batch: the number of tokens of each sequence.
  [[nodiscard]] const std::vector<std::int64_t>& lengths() const { return lengths_; }
  /// In a packed batch: which of the sequences is the first of each row.
  [[nodiscard]] const std::vector<std::size_t>& first_sequences() const { return first_sequences_; }
  /// In a packed batch on a GPU: where sequences begin.
  [[nodiscard]] const compat::SequenceBounds& bounds() const { return bounds_; }
  /// In a padded batch: {rows or 1, 1, length or 1, past + length}, the constructor's mask and the
  /// bounds of sequences; undefined when all tokens see each other.
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
  // Packs the tokens for which `counts`, {rows, length}, is true; all if it is undefined. Returns
  // false if padding has to stay.
  bool pack(const at::Tensor& counts, const Options& options);

  std::int64_t rows_, length_, past_;
  std::vector<std::int64_t> lengths_;
  std::vector<std::size_t> first_sequences_;
  compat::SequenceBounds bounds_;
  /// The places of kept tokens in {rows · length}; undefined if all tokens are kept.
  at::Tensor places_;
  /// The place of each row's first token among the kept tokens.
  at::Tensor firsts_;
  at::Tensor mask_;
  bool has_whole_mask_ = false;
};

}  // namespace accelerate::detail
