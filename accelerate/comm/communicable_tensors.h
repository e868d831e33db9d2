// Turns tensors into tensors that a c10d engine takes.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>

#include "accelerate/comm/reduce_op.h"

namespace c10d {
struct ReduceOp;
}

namespace accelerate::detail {

/// Returns dtype and sizes, e.g. "Float[2, 3]".
[[nodiscard]] std::string describe_tensor(const at::Tensor& tensor);

/// Throws UsageError unless `tensor` is defined, contiguous, on a device of type `device` and no
/// conjugate or negative view.
void check_communicable(const at::Tensor& tensor, c10::DeviceType device = c10::kCPU);

/// Returns the memory of `tensor` as uint8, so that operations which only move data take every
/// dtype. The result keeps the memory alive.
[[nodiscard]] at::Tensor as_bytes(const at::Tensor& tensor, c10::DeviceType device = c10::kCPU);

/// Throws UsageError unless the dtype of `tensor` has `op`: a mean has fractions, which integers and
/// bool cannot hold; complex numbers have no order and only sum and mean; bits are in integers and
/// bool. Every engine asks this, the group of one too, so that an error does not wait for more ranks.
void check_reduction(const at::Tensor& tensor, ReduceOp op);

/// Returns the dtype in which `op` is computed when results must not depend on the engine: 16-bit and
/// 8-bit floats would be rounded, or overflow, on the way.
[[nodiscard]] at::ScalarType accumulation_type(at::ScalarType dtype, ReduceOp op);

/// Returns c10d's name for `op`. A mean is a sum unless the engine `has_mean`; stage_for_reduction
/// then divides the sum.
[[nodiscard]] c10d::ReduceOp c10d_op(ReduceOp op, bool has_mean);
/// Returns the ReduceOp of c10d's `op`. Throws UsageError for PREMUL_SUM.
[[nodiscard]] ReduceOp op_of_c10d(const c10d::ReduceOp& op);

struct Staged {
  at::Tensor tensor;             ///< To be reduced by the engine: the caller's tensor if possible.
  std::function<void()> finish;  ///< Divides and copies back; empty when there is nothing to do.
};

/// Returns `tensor` in a dtype that Gloo reduces. Bool and the narrow or unsigned integers become a
/// wider integer, float8 becomes float, and complex numbers become pairs. `size` divides a mean; 1
/// if the engine divides. Throws UsageError as check_reduction, and for a bitwise `op` unless the
/// tensor is on the CPU.
[[nodiscard]] Staged stage_for_reduction(const at::Tensor& tensor, ReduceOp op, int size,
                                         c10::DeviceType device = c10::kCPU);

}  // namespace accelerate::detail
