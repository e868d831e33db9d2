// What decoders keep of the tokens so far.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace accelerate {

/// Keys and values of each layer: {rows, key heads, length, dim}. Room grows by doubling, so that a
/// token costs the copy of its own keys. Not for training: what is put in loses its gradients.
class KeyValueCache {
 public:
  /// Tokens of each row.
  [[nodiscard]] std::int64_t length() const { return length_; }

  /// Adds `keys` and `values`, {rows, key heads, tokens, dim}, behind those of `layer`, and returns
  /// all of them. A call for layer 0 begins new tokens, which the other layers then add too. Throws
  /// UsageError for other rows than before.
  [[nodiscard]] std::pair<at::Tensor, at::Tensor> append(std::size_t layer, const at::Tensor& keys,
                                                         const at::Tensor& values);
  /// Row i becomes a copy of row `rows[i]`, int64 {new rows}: what a beam search asks for.
  void select_rows(const at::Tensor& rows);
  /// Forgets the tokens behind the first `length`.
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
