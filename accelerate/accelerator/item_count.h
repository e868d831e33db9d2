// Losses that are sums over items (tokens), averaged over all items of an accumulation window.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "accelerate/comm/communicator.h"

namespace accelerate::detail {

/// Counts the items of a window's micro-batches and, at its end, turns gradients that ranks have
/// averaged into the gradient of (sum of all losses) / (number of all items), exactly, whatever
/// the sizes of the micro-batches were.
class ItemCount {
 public:
  /// Says that what follows belongs to `window`: counts of another one are forgotten.
  void enter(std::int64_t window);
  /// A micro-batch of `items`, in a loss that was not divided. Throws UsageError when it is
  /// negative, or when other losses of the window came without a count.
  void add(std::int64_t items);
  /// A loss without a count.
  void add_uncounted();

  [[nodiscard]] bool counting() const { return kind_ == Kind::counted; }
  /// Whether the gradients of this window were divided already, so that a further count would
  /// divide a part of them again.
  [[nodiscard]] bool normalised() const { return normalised_; }

  /// Multiplies `gradients` by ranks / items of all ranks and ends the count. [collective] Without
  /// any item gradients stay as they are, which is zero.
  void normalise(const std::vector<at::Tensor>& gradients, Communicator& communicator);
  /// Ends the count without.
  void close();
  /// Forgets everything.
  void reset();

  /// The items so far, for a checkpoint inside a window; nullopt when they are not counted.
  [[nodiscard]] std::optional<std::int64_t> counted() const {
    return counting() ? std::optional(items_) : std::nullopt;
  }

 private:
  enum class Kind { none, counted, uncounted };
  void require(Kind kind);

  std::int64_t window_ = 0;
  std::int64_t items_ = 0;
  Kind kind_ = Kind::none;
  bool normalised_ = false;
};

}  // namespace accelerate::detail
