// Functions that a user may give to loaders that dispatch: how to cut a step into the ranks' parts,
// and how to make ragged batches fit together.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "accelerate/tensor/nested.h"

namespace accelerate {

/// The part of a step that one rank gets.
struct DispatchSlice {
  std::int64_t begin = 0;  ///< First row.
  std::int64_t end = 0;    ///< One past the last row.
  int process_index = 0;   ///< The rank.
  int num_processes = 1;
};

/// Optional hooks of a loader that dispatches. Both run on rank 0 only.
template <typename Batch>
struct DispatchFunctions {
  /// Makes the batches of one step alike in everything but their number of rows.
  std::function<void(std::vector<Batch>&)> pad_fn = nullptr;
  /// Cuts a rank's part out of a step. Default: the rows [begin, end) of each tensor and vector.
  std::function<Batch(const Batch&, const DispatchSlice&)> slice_fn = nullptr;
};

namespace detail {
/// Pads the k-th tensors of all batches along `dim` to the longest of them. Tensors without `dim`
/// stay. Throws ConfigError when `dim` is below 1.
void pad_to_longest(const std::vector<std::vector<at::Tensor*>>& batches, std::int64_t dim,
                    double value);
}  // namespace detail

/// A pad_fn: pads tensors along `dim` to the longest among the batches of a step. Tensors without
/// that dimension stay as they are. E.g. {.dim = 1, .pad_index = 0} for token ids {batch, length}.
struct PadToLongest {
  std::int64_t dim = 1;
  double pad_index = 0;

  template <Nested Batch>
  void operator()(std::vector<Batch>& batches) const {
    std::vector<std::vector<at::Tensor*>> tensors(batches.size());
    for (std::size_t i = 0; i < batches.size(); ++i) {
      visit_tensors(batches[i], [&](at::Tensor& tensor) { tensors[i].push_back(&tensor); });
    }
    detail::pad_to_longest(tensors, dim, pad_index);
  }
};

}  // namespace accelerate
