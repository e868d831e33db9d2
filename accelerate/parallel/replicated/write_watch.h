// Notices writes to parameters while the gradients of an accumulation window are each rank's own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/tensor/module_view.h"
#include "accelerate/tensor/write_mark.h"

namespace accelerate::detail {

/// Between micro-batches that do not synchronise, a write that changes values is as good as always
/// a step on local gradients, after which ranks differ. One that leaves them as they were is none:
/// weights may be swapped for an evaluation and put back. Cost: a WriteMark a parameter once a
/// window, and a look at it once a micro-batch.
class WriteWatch {
 public:
  explicit WriteWatch(std::vector<NamedTensor> parameters);

  /// A micro-batch of that window begins, and does not synchronise.
  void watch(std::int64_t window);
  /// Notes the parameters that have gradients as they are, after a backward of a micro-batch that
  /// is watched; without effect in other ones, and from the second in a window on. What has none,
  /// as a codebook that averages move, no step touches.
  void note();
  /// Whatever is written until the next window is in order.
  void forget();

  /// The name of a parameter that was changed in `window` after note(), if any.
  [[nodiscard]] std::optional<std::string> changed_in(std::int64_t window) const;

 private:
  std::vector<NamedTensor> parameters_;
  std::optional<std::int64_t> window_;  // That is watched.
  std::vector<std::pair<std::string, WriteMark>> noted_;
};

}  // namespace accelerate::detail
