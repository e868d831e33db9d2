// Notices writes to parameters in an accumulation window, while each rank has its own gradients.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/tensor/module_view.h"
#include "accelerate/tensor/write_mark.h"

namespace accelerate::detail {

/// Between micro-batches that do not synchronise, a write that changes values is almost always an
/// optimizer's step on local gradients, after which ranks differ. A write that restores the old
/// values does not count: weights may be swapped for an evaluation and put back. Cost: one
/// WriteMark per parameter and window, and one check of it per micro-batch.
class WriteWatch {
 public:
  explicit WriteWatch(std::vector<NamedTensor> parameters);

  /// To be called when a micro-batch of `window` begins that does not synchronise.
  void watch(std::int64_t window);
  /// Notes the present values of the parameters that have gradients. To be called after the
  /// backward of a micro-batch. Has an effect only for the first watched micro-batch of a window.
  /// Leaves out parameters without gradients, which no optimizer steps; moving averages may update
  /// them, as in a codebook.
  void note();
  /// Allows all writes until the next watch().
  void forget();

  /// Returns the name of a parameter that was changed in `window` after note(), if any.
  [[nodiscard]] std::optional<std::string> changed_in(std::int64_t window) const;

 private:
  std::vector<NamedTensor> parameters_;
  std::optional<std::int64_t> window_;  // The window that is watched.
  std::vector<std::pair<std::string, WriteMark>> noted_;
};

}  // namespace accelerate::detail
