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
/// Whether each part of `bytes` begins where the one before ends.
[[nodiscard]] bool lie_side_by_side(const Addresses& parts, std::size_t bytes);

}  // namespace accelerate::detail
