#include "accelerate/transformers/models/layers/distance_scores.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ceil.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/log.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/sign.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>

namespace accelerate::detail {
namespace {

// distance: {D}. Returns the numbers of their embeddings.
at::Tensor shared_distances(const at::Tensor& distance, const Distances& distances) {
  const std::int64_t middle = distances.span / 2;
  const at::Tensor is_near = (distance < middle).logical_and(distance > -middle);
  const at::Tensor size = at::where(is_near, at::full_like(distance, middle - 1), distance.abs());
  const at::Tensor range = at::log(at::tensor(
      static_cast<float>(static_cast<double>(distances.farthest - 1) / static_cast<double>(middle)),
      at::TensorOptions(at::kFloat).device(distance.device())));
  const at::Tensor far = at::ceil(at::log(size / middle) / range * (middle - 1)) + middle;
  return at::where(size <= middle, distance.to(at::kFloat), far * at::sign(distance)).to(at::kLong);
}

// all: {…, R, C + R - 1}. Returns {…, R, C}, whose row r begins at column R - 1 - r of `all`.
at::Tensor skewed(const at::Tensor& all) {
  const std::int64_t rows = all.size(-2), columns = all.size(-1) + 1 - rows;
  if (rows == 1) return all;
  const std::int64_t step = all.size(-1) - 1;
  return all.flatten(-2)
      .narrow(-1, rows - 1, rows * step)
      .unflatten(-1, {rows, step})
      .narrow(-1, 0, columns);
}

// heads: {rows, heads, T, dim}; distances: {heads, dim, D}. Returns {rows, heads, T, D}, as one
// product for each head.
at::Tensor products(const at::Tensor& heads, const at::Tensor& distances) {
  const at::Tensor folded = heads.transpose(0, 1).flatten(1, 2);
  return at::matmul(folded, distances.to(heads.scalar_type()))
      .unflatten(1, {heads.size(0), heads.size(2)})
      .transpose(0, 1);
}

}  // namespace

at::Tensor rows_of_distances(const Distances& distances, std::int64_t longest, c10::Device device) {
  at::Tensor distance =
      at::arange(1 - longest, longest, at::TensorOptions(at::kLong).device(device));
  if (distances.shares_far_ones) distance = shared_distances(distance, distances);
  return (distance + distances.span).clamp(0, 2 * distances.span - 1);
}

at::Tensor DistanceScores::operator()(const at::Tensor& query, const at::Tensor& key) const {
  const std::int64_t asking = query.size(2), asked = key.size(2), count = asking + asked - 1;
  at::Tensor sum;
  if (keys.defined()) sum = skewed(products(query, keys.narrow(-1, longest - asking, count)));
  if (queries.defined()) {
    const at::Tensor scores =
        skewed(products(key, queries.narrow(-1, longest - asked, count))).transpose(-1, -2);
    sum = sum.defined() ? sum + scores : scores;
  }
  return sum * scale;
}

}  // namespace accelerate::detail
