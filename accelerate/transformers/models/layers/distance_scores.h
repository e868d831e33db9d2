// What DeBERTa adds to scores of attention for the distance of two tokens.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace accelerate::detail {

/// Which distances have embeddings: those from -span to span - 1.
struct Distances {
  std::int64_t span;
  std::int64_t farthest;  ///< Where the last step of the logarithm ends.
  /// Whether far distances share embeddings: one for each step of a logarithm. Near distances, up to
  /// half the span, have their own.
  bool shares_far_ones = false;
};

/// Returns the rows of the embeddings, {2 · longest - 1}, of the distances from -(longest - 1) to
/// longest - 1. The distance of a query from a key is positive where the query stands behind the
/// key. Source: `make_log_bucket_position` of Transformers.
[[nodiscard]] at::Tensor rows_of_distances(const Distances& distances, std::int64_t longest,
                                           c10::Device device);

/// Scores of distances: query · key of the distance, and query of the distance · key, times `scale`.
/// Cost: a product of tokens and distances for each of both, and no table of pairs of tokens.
struct DistanceScores {
  std::int64_t longest;
  double scale;
  /// {heads, dim, 2 · longest - 1} each, or undefined. Keys begin with the greatest distance,
  /// queries with the least.
  at::Tensor keys = {}, queries = {};

  /// query: {rows, heads, queries, dim}; key: {rows, heads, keys, dim}; at most `longest` tokens.
  /// Returns {rows, heads, queries, keys}.
  [[nodiscard]] at::Tensor operator()(const at::Tensor& query, const at::Tensor& key) const;
};

}  // namespace accelerate::detail
