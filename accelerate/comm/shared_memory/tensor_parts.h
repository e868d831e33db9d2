// Tensors as the collectives through shared memory take them: checked, and as bytes.
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

/// The tensor itself. Throws UsageError unless it is contiguous, dense and on the CPU.
[[nodiscard]] const at::Tensor& checked(const at::Tensor& tensor);

/// The one element of a list, of which c10d takes several for ranks with several devices. Throws
/// UsageError when there are more, or none.
template <typename Any>
[[nodiscard]] const Any& only(const std::vector<Any>& list) {
  if (list.size() == 1) return list.front();
  throw UsageError("a collective on the CPU takes one tensor (or list) a rank, not " +
                   std::to_string(list.size()));
}

/// How `tensor` is reduced by `op`. Throws UsageError when it cannot be.
[[nodiscard]] Reduction reduction_of(const at::Tensor& tensor, const c10d::ReduceOp& op);

[[nodiscard]] std::byte* data_of(const at::Tensor& tensor);
[[nodiscard]] Part part_of(const at::Tensor& tensor);
/// Where each of `size` equal parts of `whole` begins.
[[nodiscard]] Addresses parts_of(const at::Tensor& whole, int size);
/// The same with its size.
[[nodiscard]] std::vector<Part> equal_parts(const at::Tensor& whole, int size);
/// Of `size` tensors as large as `like`, else UsageError.
[[nodiscard]] Addresses addresses_of(const Tensors& tensors, const at::Tensor& like, int size);
/// The dtype that all of them have, else UsageError.
[[nodiscard]] c10::ScalarType only_dtype_of(const Tensors& tensors);
/// What a rank tells its peers before an uneven all_to_all, int64: the dtype, and the bytes for
/// each of them.
[[nodiscard]] at::Tensor sent_sizes(const std::vector<Part>& inputs, c10::ScalarType dtype);
/// `sent` has the sent_sizes() of every rank. Throws CommError when they are not what `outputs` of
/// `rank`, of `dtype`, have room for.
void require_what_is_sent(int rank, const std::vector<Part>& outputs, c10::ScalarType dtype,
                          const at::Tensor& sent);
/// In bytes.
[[nodiscard]] std::size_t largest_sent(const at::Tensor& sent);
/// Whether each part of `bytes` begins where the one before ends.
[[nodiscard]] bool lie_side_by_side(const Addresses& parts, std::size_t bytes);

}  // namespace accelerate::detail
