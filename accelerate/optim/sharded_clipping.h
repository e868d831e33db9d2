// The norm of gradients that are divided among ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "accelerate/comm/communicator.h"

namespace accelerate::detail {

/// Tensors whose gradients are whole on every rank, or this rank's parts of gradients that `ranks`
/// hold together.
struct GradientPart {
  std::vector<at::Tensor> holders;
  Communicator* ranks = nullptr;
};

/// Returns the part over `ranks` among `parts`. Adds one if there is none.
[[nodiscard]] GradientPart& part_over(std::vector<GradientPart>& parts, Communicator& ranks);

/// As clip_grad_norm_ of all parts together. Returns the norm of the whole gradients, shape {}, the
/// same number on all ranks of `world`. Gradients that every rank has whole count with their mean
/// over the ranks. [collective over world and each part's ranks, also on ranks without gradients]
at::Tensor clip_grad_norm_of_parts_(const std::vector<GradientPart>& parts, Communicator& world,
                                    double max_norm, double norm_type);

}  // namespace accelerate::detail
