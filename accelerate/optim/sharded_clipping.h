// The norm of gradients of which each rank has a part.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "accelerate/comm/communicator.h"

namespace accelerate::detail {

/// Tensors whose gradients are whole on every rank, or parts of something that `ranks` have
/// together.
struct GradientPart {
  std::vector<at::Tensor> holders;
  Communicator* ranks = nullptr;
};

/// The part over `ranks` among `parts`, added when there is none.
[[nodiscard]] GradientPart& part_over(std::vector<GradientPart>& parts, Communicator& ranks);

/// As clip_grad_norm_ of all of them together: the norm is that of the whole gradients, shape {},
/// the same number on all ranks of `world`, where what they have whole counts with its mean.
/// [collective over world and each part's ranks] Also for ranks without any.
at::Tensor clip_grad_norm_of_parts_(const std::vector<GradientPart>& parts, Communicator& world,
                                    double max_norm, double norm_type);

}  // namespace accelerate::detail
