// Which values the keys of config.json may have.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/transformers/models/config/pretrained_config.h"

namespace accelerate::detail {

/// The least and the most that a key may say.
template <typename T>
struct Range {
  T least, most;
};

/// Upper limits lie beyond every model that was made: a slip must not take all memory.
namespace limits {
inline constexpr Range<std::int64_t> kWords{1, 1 << 24};  ///< Rows of embeddings.
inline constexpr Range<std::int64_t> kWidth{1, 1 << 17};  ///< Numbers per token.
inline constexpr Range<std::int64_t> kInner{1, 1 << 20};  ///< Numbers per token within a layer.
inline constexpr Range<std::int64_t> kHeads{1, 1 << 14};
inline constexpr Range<std::int64_t> kLayers{0, 1 << 12};
inline constexpr Range<std::int64_t> kTokens{1, 1LL << 40};  ///< Tokens that take no memory.
inline constexpr Range<std::int64_t> kIndex{0, 1LL << 40};
inline constexpr Range<std::int64_t> kTokenId{-kWords.most, kWords.most};
inline constexpr Range<double> kShare{0, 1};
inline constexpr Range<double> kEpsilon{0, 1};
inline constexpr Range<double> kDeviation{0, 100};
inline constexpr Range<double> kFactor{-1e6, 1e6};
inline constexpr Range<double> kDivisor{1e-6, 1e6};
inline constexpr Range<std::int64_t> kInterval{1, 1 << 12};
}  // namespace limits

/// "an integer from 1 to 131072", "a number from 0 to 1".
[[nodiscard]] std::string in_words(const Range<std::int64_t>& range);
[[nodiscard]] std::string in_words(const Range<double>& range);

/// Returns the value of `key`. Throws ConfigError if it is missing, null or not in `range`.
template <typename T>
[[nodiscard]] T value_in(const PretrainedConfig& values, std::string_view key,
                         const Range<T>& range) {
  const auto value = values.get_if<T>(key);
  // Not a number compares as false.
  if (value && *value >= range.least && *value <= range.most) return *value;
  values.refuse(key, in_words(range));
}

/// Heads of attention, and the numbers that they share out, with their keys.
struct HeadsOfWidth {
  const char* heads_key;
  std::int64_t heads;
  const char* width_key;
  std::int64_t width;
};
/// Throws ConfigError unless the heads divide the width.
void check_heads(const PretrainedConfig& values, const HeadsOfWidth& given);

/// Throws ConfigError unless `num_key_value_heads` divide `num_attention_heads`.
void check_key_heads(const PretrainedConfig& values, std::int64_t heads, std::int64_t key_heads);

/// Throws ConfigError unless a list has an entry for each of `num_hidden_layers`.
void check_layer_types(const PretrainedConfig& values, const std::vector<std::string>& types,
                       std::int64_t layers);

/// Throws ConfigError if `pad_token_id` is not a row of embeddings with `rows` rows; `rows_key` says
/// how many there are. Below zero it counts from the last row, as in Python.
void check_padding_row(const PretrainedConfig& values, std::optional<std::int64_t> pad_token_id,
                       const char* rows_key, std::int64_t rows);

/// Returns the type of weights that `dtype`, or without it the older `torch_dtype`, names: a word,
/// or an object of words, of which "" stands for the model. Returns nullopt if there is neither.
/// Throws ConfigError, with the words that are allowed, for another one.
[[nodiscard]] std::optional<at::ScalarType> dtype_of_weights(const PretrainedConfig& values);

/// Throws ConfigError for values of keys that all architectures have: the ids of tokens, and the
/// words of problem_type, layer_types, dtype and attn_implementation.
void check_common_keys(const PretrainedConfig& values);

/// How config.json calls the numbers that decide how large a model is.
struct SizeKeys {
  std::string_view width = "hidden_size", inner = "intermediate_size", layers = "num_hidden_layers";
};
/// Throws ConfigError if the weights of the model surely take more than `memory_bytes`.
void check_size(const PretrainedConfig& values, const SizeKeys& keys, std::uint64_t memory_bytes);

}  // namespace accelerate::detail
