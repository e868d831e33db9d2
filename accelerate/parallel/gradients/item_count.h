// Averages losses that are sums over items (tokens) over all items of an accumulation window.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "accelerate/comm/communicator.h"

namespace accelerate::detail {

/// Counts the items of a window's micro-batches. At the window's end, turns gradients that ranks
/// have averaged into the gradient of (sum of all losses) / (number of all items). The result is
/// exact for micro-batches of any size.
class ItemCount {
 public:
  /// Begins `window`: counts of another window are forgotten.
  void enter(std::int64_t window);
  /// Adds the items of a micro-batch whose loss was not divided. Throws UsageError if `items` is
  /// negative, or if other losses of the window came without a count.
  void add(std::int64_t items);
  /// Records a loss without a count. Throws UsageError if other losses of the window were counted.
  void add_uncounted();

  [[nodiscard]] bool counting() const { return kind_ == Kind::counted; }
  /// Whether the gradients of this window have already been divided. A further count would divide
  /// part of them again.
  [[nodiscard]] bool normalised() const { return normalised_; }

  /// Multiplies `gradients` by ranks / items of all ranks, and ends the count. [collective] If
  /// there are no items, the gradients are zero and stay so.
  void normalise(const std::vector<at::Tensor>& gradients, Communicator& communicator);
  /// Ends the count without dividing.
  void close();
  /// Forgets everything.
  void reset();

  /// Returns the items so far, for a checkpoint inside a window; nullopt if they are not counted.
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
