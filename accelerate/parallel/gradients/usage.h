// Which parameters get gradients in a step: on this rank, and on how many ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

#include "accelerate/comm/communicator.h"

namespace accelerate::detail {

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
