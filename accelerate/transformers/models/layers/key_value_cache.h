// The keys and values that decoders keep of the tokens so far.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
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
  /// The keys and values that `layer` reads of an encoder's tokens; nullopt if there are none yet.
  [[nodiscard]] std::optional<std::pair<at::Tensor, at::Tensor>> read(std::size_t layer) const;
  /// Keeps them: {rows, key heads, tokens, dim}, each once.
  void keep_read(std::size_t layer, const at::Tensor& keys, const at::Tensor& values);
  /// The number of the encoder's tokens; 0 if no layer reads any.
  [[nodiscard]] std::int64_t read_length() const;
  /// Makes row i a copy of row `rows[i]`, as a beam search needs it. rows: int64 {new rows}.
  void select_rows(const at::Tensor& rows);
  /// Forgets the tokens after the first `length`.
  void crop(std::int64_t length);

  /// The positions of all tokens, one list a row, by which packed sequences are told apart
  /// (layers/sequences.h). Empty if no call gave any.
  [[nodiscard]] std::vector<std::vector<std::int64_t>> positions() const;
  /// Keeps the positions of the tokens so far and of the tokens that a call is about to append.
  void set_positions(std::vector<std::vector<std::int64_t>> positions);

 private:
  struct Layer {
    at::Tensor keys, values;  // With room for more tokens.
    std::int64_t length = 0;
  };

  std::vector<Layer> layers_;
  std::vector<std::pair<at::Tensor, at::Tensor>> read_;
  std::vector<std::int64_t> read_rows_;  // Which of the first rows each row of read_ is.
  std::vector<std::vector<std::int64_t>> positions_;
  std::int64_t length_ = 0;
};

}  // namespace accelerate
