// What every engine asks of the arguments of a collective, so that a mistake reads the same over
// each. All local; all throw UsageError.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace accelerate::detail {

/// `rank` is one of a group of `size`.
void check_peer(int rank, int size);

/// `ranks` are distinct ones of a group of `size`, to be split off.
void check_members(const std::vector<int>& ranks, int size);

/// `whole` has the dtype of `part` and `size` times its elements. `what` begins the message.
void check_parts(const char* what, const at::Tensor& part, const at::Tensor& whole, int size);

}  // namespace accelerate::detail
