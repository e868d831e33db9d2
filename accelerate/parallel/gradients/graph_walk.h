// Which leaves a backward will reach.
#pragma once

#include <ATen/core/Tensor.h>

#include <unordered_set>
#include <vector>

namespace accelerate::detail {

/// Returns for each leaf whether a backward from `root` accumulates into it. Does not see what a
/// node computes by a nested backward (re-entrant checkpointing). Local. Cost: one visit of every
/// node of the graph (about 0.1 µs each).
[[nodiscard]] std::vector<bool> reached_leaves(const at::Tensor& root,
                                               const std::vector<at::Tensor>& leaves);

/// Returns the TensorImpls of all leaves that a backward from `root` accumulates into. Blind and
/// costly as reached_leaves().
[[nodiscard]] std::unordered_set<const void*> all_reached_leaves(const at::Tensor& root);

}  // namespace accelerate::detail
