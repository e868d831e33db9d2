// Rotary position embeddings.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>

#include "accelerate/models/config/pretrained_config.h"

namespace accelerate::detail {

/// Turns queries and keys by angles that grow with the position.
/// Source: Su et al. 2021; `modeling_rope_utils.py` of Transformers.
class Rotary {
 public:
  /// Cosines and sines, {…, dim}, to be used for all heads.
  struct Angles {
    at::Tensor cos, sin;
  };

  /// Reads `rope_parameters`, or the older `rope_theta` and `rope_scaling`. rope_type is default,
  /// linear, dynamic, yarn or llama3. `dim`: of a head. Throws ConfigError for another type and for
  /// keys that a type lacks.
  Rotary(const PretrainedConfig& config, std::int64_t dim, std::int64_t max_positions);

  /// positions: integers {…}. Computed in fp32, given in `type`. Of rope_type dynamic the angles
  /// depend on the last of the positions, which is copied to the CPU.
  [[nodiscard]] Angles angles(const at::Tensor& positions, at::ScalarType type) const;

 private:
  [[nodiscard]] at::Tensor inverse_frequencies(const at::Tensor& positions) const;
  [[nodiscard]] at::Tensor yarn(const at::Tensor& powers) const;
  [[nodiscard]] at::Tensor llama3(const at::Tensor& frequencies) const;

  enum class Type { usual, linear, dynamic, yarn, llama3 };
  Type type_ = Type::usual;
  std::int64_t dim_, max_positions_;
  double theta_ = 10000, factor_ = 1, attention_factor_ = 1;
  double low_freq_factor_ = 1, high_freq_factor_ = 4, original_positions_ = 0;
  double beta_fast_ = 32, beta_slow_ = 1;
  bool truncates_ = true;
};

/// heads: {…, heads, dim}. Returns the same shape.
[[nodiscard]] at::Tensor rotate(const at::Tensor& heads, const Rotary::Angles& angles);

}  // namespace accelerate::detail
