// Turns tensors into checked bytes for the collectives through shared memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <string>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/comm/shared_memory/staged_collectives.h"

namespace accelerate::detail {

using Tensors = std::vector<at::Tensor>;
using Addresses = std::vector<std::byte*>;

/// Returns `tensor` itself. Throws UsageError unless it is contiguous, dense and on the CPU.
[[nodiscard]] const at::Tensor& checked(const at::Tensor& tensor);

/// Returns the only element of `list`. Throws UsageError unless there is exactly one. (c10d's lists
/// are for ranks with several devices.)
template <typename Any>
[[nodiscard]] const Any& only(const std::vector<Any>& list) {
  if (list.size() == 1) return list.front();
  throw UsageError("a collective on the CPU takes one tensor (or list) a rank, not " +
                   std::to_string(list.size()));
}

/// Returns the reduction of `tensor` by `op`. Throws UsageError if its dtype does not have `op`.
[[nodiscard]] Reduction reduction_of(const at::Tensor& tensor, const c10d::ReduceOp& op);

[[nodiscard]] std::byte* data_of(const at::Tensor& tensor);
[[nodiscard]] Part part_of(const at::Tensor& tensor);
/// Returns the beginnings of the `size` equal parts of `whole`.
[[nodiscard]] Addresses parts_of(const at::Tensor& whole, int size);
/// Returns the `size` equal parts of `whole`.
[[nodiscard]] std::vector<Part> equal_parts(const at::Tensor& whole, int size);
/// Returns the addresses of `tensors`. Throws UsageError unless there are `size` of them, each with
/// as many elements and the dtype of `like`.
[[nodiscard]] Addresses addresses_of(const Tensors& tensors, const at::Tensor& like, int size);
/// Returns the dtype of all `tensors`. Throws UsageError if they differ in dtype.
[[nodiscard]] c10::ScalarType only_dtype_of(const Tensors& tensors);
/// Returns what a rank tells its peers before an uneven all_to_all, as int64: the dtype, then the
/// number of bytes for each rank.
[[nodiscard]] at::Tensor sent_sizes(const std::vector<Part>& inputs, c10::ScalarType dtype);
/// Throws CommError unless every rank sends what `rank` expects: tensors of `dtype` with the sizes
/// of `outputs`. `sent` has a row of sent_sizes() for each rank.
void require_what_is_sent(int rank, const std::vector<Part>& outputs, c10::ScalarType dtype,
                          const at::Tensor& sent);
/// Returns the size in bytes of the largest part that any rank sends. `sent` as above.
[[nodiscard]] std::size_t largest_sent(const at::Tensor& sent);
/// Whether each part of `bytes` begins where the one before ends.
[[nodiscard]] bool lie_side_by_side(const Addresses& parts, std::size_t bytes);

}  // namespace accelerate::detail
