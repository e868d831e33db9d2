// Losses that are sums over items (tokens), averaged over all items of an accumulation window.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "accelerate/comm/communicator.h"

namespace accelerate::detail {

/// Counts the items of a window's micro-batches and, at its end, turns gradients that ranks have
/// averaged into the gradient of (sum of all losses) / (number of all items), exactly, whatever
/// the sizes of the micro-batches were.
class ItemCount {
 public:
  /// A micro-batch of `items`, in a loss that was not divided. Throws UsageError when it is
  /// negative, or when other losses of the window came without a count.
  void add(std::int64_t items);
  /// A loss without a count.
  void add_uncounted();

  [[nodiscard]] bool counting() const { return kind_ == Kind::counted; }

  /// Multiplies `gradients` by ranks / items of all ranks and starts the next window. [collective]
  /// Without any item gradients stay as they are, which is zero.
  void normalise(const std::vector<at::Tensor>& gradients, Communicator& communicator);
  void reset();

 private:
  enum class Kind { none, counted, uncounted };
  void require(Kind kind);

  std::int64_t items_ = 0;
  Kind kind_ = Kind::none;
};

}  // namespace accelerate::detail
