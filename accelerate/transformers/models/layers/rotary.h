// Rotary position embeddings.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "accelerate/transformers/models/config/pretrained_config.h"

namespace accelerate::detail {

/// Rotates queries and keys by angles that grow with the position.
/// Source: Su et al. 2021; `modeling_rope_utils.py` of Transformers.
class Rotary {
 public:
  /// Cosines and sines, {…, 1, dim}: the same for all heads.
  struct Angles {
    at::Tensor cos, sin;
  };

  /// What a model's rotation does not read from `rope_parameters`.
  struct Model {
    std::int64_t head_dim, max_positions;
    /// "full_attention", "sliding_attention" or both, for which the file may have entries of their
    /// own.
    std::set<std::string> layer_types;
    double default_theta = 10000;
  };

  /// Reads `rope_parameters`, or the older `rope_theta` and `rope_scaling`. rope_type is default,
  /// linear, dynamic, yarn or llama3. Throws ConfigError for another type, if a key that the type
  /// needs is missing, and if the entries of `layer_types` differ.
  Rotary(const PretrainedConfig& config, const Model& model);

  /// Returns the angles of `positions`, integers {…}, computed in fp32 and converted to `type`.
  /// With rope_type dynamic they depend on the largest position, which is copied to the CPU.
  [[nodiscard]] Angles angles(const at::Tensor& positions, at::ScalarType type) const;

 private:
  [[nodiscard]] at::Tensor inverse_frequencies(const at::Tensor& positions) const;
  [[nodiscard]] at::Tensor yarn(const at::Tensor& powers) const;
  [[nodiscard]] at::Tensor llama3(const at::Tensor& frequencies) const;

  enum class Type { usual, linear, dynamic, yarn, llama3 };
  Type type_ = Type::usual;
  std::int64_t dim_, max_positions_;
  double theta_, factor_ = 1, attention_factor_ = 1;
  double low_freq_factor_ = 1, high_freq_factor_ = 4, original_positions_ = 0;
  double beta_fast_ = 32, beta_slow_ = 1;
  bool truncates_ = true;
};

/// Rotates `heads`, {…, heads, dim}. Returns the same shape.
[[nodiscard]] at::Tensor rotate(const at::Tensor& heads, const Rotary::Angles& angles);

}  // namespace accelerate::detail
