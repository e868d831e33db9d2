// Rotary position embeddings.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

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
    const char* theta_key = "rope_theta";  ///< Where a file says theta outside `rope_parameters`.
    /// Phi-3 only: its original_max_position_embeddings. Then partial_rotary_factor counts, and
    /// rope_type is default or longrope, which older files call su or yarn.
    std::optional<std::int64_t> phi3_original_positions = {};
  };

  /// Reads `rope_parameters`, or the older `rope_theta` and `rope_scaling`. rope_type is default,
  /// linear, dynamic, yarn, longrope or llama3. Throws ConfigError for another type, if a key that
  /// the type needs is missing, and if the entries of `layer_types` differ.
  Rotary(const PretrainedConfig& config, const Model& model);

  /// Returns the angles of `positions`, integers {…}, computed in fp32 and converted to `type`.
  /// With rope_type dynamic and longrope they depend on the largest of `all_positions`, those of
  /// padding included. For dynamic it is copied to the CPU.
  [[nodiscard]] Angles angles(const at::Tensor& positions, const at::Tensor& all_positions,
                              at::ScalarType type) const;

  /// Into how many pairs a head is divided; what is left is not rotated.
  [[nodiscard]] std::int64_t pairs() const { return (dim_ + 1) / 2; }
  /// With rope_type longrope: the length of a text beyond which all its tokens have other angles.
  [[nodiscard]] std::optional<std::int64_t> longest_short_text() const {
    return type_ == Type::longrope ? std::optional(static_cast<std::int64_t>(original_positions_))
                                   : std::nullopt;
  }

 private:
  enum class Type { usual, linear, dynamic, yarn, longrope, llama3 };
  [[nodiscard]] static Type type_of(const PretrainedConfig& values, bool is_phi3);
  void read_yarn(const PretrainedConfig& values);
  void read_longrope(const PretrainedConfig& values);
  [[nodiscard]] at::Tensor inverse_frequencies(const at::Tensor& all_positions) const;
  [[nodiscard]] at::Tensor yarn(const at::Tensor& powers) const;
  [[nodiscard]] at::Tensor longrope(const at::Tensor& powers, const at::Tensor& positions) const;
  [[nodiscard]] at::Tensor llama3(const at::Tensor& frequencies) const;

  Type type_ = Type::usual;
  std::int64_t dim_, max_positions_;
  double theta_, factor_ = 1, attention_factor_ = 1;
  double low_freq_factor_ = 1, high_freq_factor_ = 4, original_positions_ = 0;
  double beta_fast_ = 32, beta_slow_ = 1;
  bool truncates_ = true;
  std::vector<double> short_factors_, long_factors_;  // One for each pair.
};

/// Rotates `heads`, {…, heads, dim}, or their first part if there are angles for a part only.
/// Returns the same shape.
[[nodiscard]] at::Tensor rotate(const at::Tensor& heads, const Rotary::Angles& angles);

}  // namespace accelerate::detail
