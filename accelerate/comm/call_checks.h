// Checks of the arguments of a collective that all engines share, so that a mistake gives the same
// message over every engine. All are local and throw UsageError.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace accelerate::detail {

/// Checks that `rank` belongs to a group of `size` ranks.
void check_peer(int rank, int size);

/// Checks that the `ranks` to be split off are distinct and belong to a group of `size` ranks.
void check_members(const std::vector<int>& ranks, int size);

/// Checks that `whole` has the dtype of `part` and `size` times as many elements. `what` begins the
/// message.
void check_parts(const char* what, const at::Tensor& part, const at::Tensor& whole, int size);

}  // namespace accelerate::detail
