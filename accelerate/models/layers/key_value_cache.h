// The keys and values that decoders keep of the tokens so far.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace accelerate {

/// Keys and values of each layer: {rows, key heads, length, dim}. Room grows by doubling, so that a
/// new token costs the copy of its own keys and values. Not for training: tensors that are appended
/// lose their gradients.
class KeyValueCache {
 public:
  /// The number of tokens of each row.
  [[nodiscard]] std::int64_t length() const { return length_; }

  /// Appends `keys` and `values`, {rows, key heads, tokens, dim}, to `layer`, and returns all keys
  /// and values of the layer. Every layer must append the same number of tokens. Throws UsageError
  /// for another number of rows than before.
  [[nodiscard]] std::pair<at::Tensor, at::Tensor> append(std::size_t layer, const at::Tensor& keys,
                                                         const at::Tensor& values);
  /// Makes row i a copy of row `rows[i]`, as a beam search needs it. rows: int64 {new rows}.
  void select_rows(const at::Tensor& rows);
  /// Forgets the tokens after the first `length`.
  void crop(std::int64_t length);

 private:
  struct Layer {
    at::Tensor keys, values;  // With room for more tokens.
    std::int64_t length = 0;
  };

  std::vector<Layer> layers_;
  std::int64_t length_ = 0;
};

}  // namespace accelerate
