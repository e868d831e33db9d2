// Which leaves a backward will reach.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace accelerate::detail {

/// For each of `leaves` whether a backward from `root` accumulates into it. Local. Cost: one visit
/// of every node of the graph (about 0.1 µs each). What a node computes by a backward of its own
/// (re-entrant checkpointing) is not seen.
[[nodiscard]] std::vector<bool> reached_leaves(const at::Tensor& root,
                                               const std::vector<at::Tensor>& leaves);

}  // namespace accelerate::detail
