// Which parameters get gradients in a step: on this rank, and on how many ranks.
#pragma once

#include <ATen/core/Tensor.h>
#include <cstddef>
#include <unordered_set>
#include <vector>

#include "accelerate/comm/communicator.h"

namespace accelerate::detail {

// Which leaves a backward will reach.

/// Returns for each leaf whether a backward from `root` accumulates into it. Does not see what a
/// node computes by a nested backward (re-entrant checkpointing). Local. Cost: one visit of every
/// node of the graph (about 0.1 µs each).
[[nodiscard]] std::vector<bool> reached_leaves(const at::Tensor& root,
                                               const std::vector<at::Tensor>& leaves);

/// Returns the TensorImpls of all leaves that a backward from `root` accumulates into. Blind and
/// costly as reached_leaves().
[[nodiscard]] std::unordered_set<const void*> all_reached_leaves(const at::Tensor& root);

/// For each parameter, the number of ranks on which it gets a gradient.
class Usage {
 public:
  /// Counts every parameter on every rank, as is assumed until ask() is called.
  Usage(std::size_t parameters, int ranks) : counts_(parameters, ranks), ranks_(ranks) {}

  /// Sends which parameters get gradients on this rank; the counts are complete after wait().
  /// [collective]
  void ask(Communicator& communicator, const std::vector<bool>& mine);
  void wait();

  [[nodiscard]] bool anywhere(std::size_t parameter) const { return counts_[parameter] > 0; }
  /// Whether at least one rank has a gradient for at least one parameter.
  [[nodiscard]] bool any() const;
  /// Whether all ranks have gradients for the same parameters.
  [[nodiscard]] bool is_unanimous() const;

 private:
  std::vector<int> counts_;
  int ranks_;
  at::Tensor sent_;
  Work work_;
  bool pending_ = false;
};

}  // namespace accelerate::detail
