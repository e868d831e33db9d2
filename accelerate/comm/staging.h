// Turns tensors into what a c10d engine takes.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>

#include "accelerate/comm/communicator.h"

namespace c10d {
struct ReduceOp;
}

namespace accelerate::detail {

/// "float[2, 3]".
[[nodiscard]] std::string describe_tensor(const at::Tensor& tensor);

/// Throws UsageError unless `tensor` is defined, contiguous and on a device of type `device`.
void check_communicable(const at::Tensor& tensor, c10::DeviceType device = c10::kCPU);

/// The memory of `tensor` as uint8, so that operations which only move data take every dtype. Keeps
/// the memory alive.
[[nodiscard]] at::Tensor as_bytes(const at::Tensor& tensor, c10::DeviceType device = c10::kCPU);

/// `tensor` divided by `size` in place: what makes a mean of a sum. Integers round toward zero.
void divide(at::Tensor tensor, int size);

/// What c10d calls `op`. A mean is its sum unless the engine `has_mean`: stage_for_reduction
/// divides.
[[nodiscard]] c10d::ReduceOp c10d_op(ReduceOp op, bool has_mean);

struct Staged {
  at::Tensor tensor;             ///< What the engine reduces: the tensor itself where it can.
  std::function<void()> finish;  ///< Copies back and divides; empty when there is nothing to do.
};

/// `tensor` in a dtype that Gloo reduces: bool and the narrow or unsigned integers as a wider
/// integer, float8 as float, complex as pairs (sum and mean only, else UsageError). Reductions of
/// bits: integers and bool on the CPU, else UsageError.
[[nodiscard]] Staged stage_for_reduction(const at::Tensor& tensor, ReduceOp op, int size,
                                         c10::DeviceType device = c10::kCPU);

}  // namespace accelerate::detail
