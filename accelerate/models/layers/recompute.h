// Layers that keep nothing for their backward but their input.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace accelerate::detail {

/// layer(hidden), whose intermediate results are not kept: backward computes them again, with the
/// random numbers and the autocast of this call, so that gradients are those of layer(hidden) to
/// the bit. `parameters`: the leaves that `layer` reads and that may need gradients; they take part
/// in the graph as ever, so that engines see them. `layer` must not change anything, and what it
/// captures must live until backward. Without gradients it is called as it is. Cost: its forward a
/// second time; memory: `hidden`, and the state of the generators (5 KB on a CPU). Source:
/// `torch.utils.checkpoint`; Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016.
[[nodiscard]] at::Tensor recomputed(const std::function<at::Tensor(const at::Tensor&)>& layer,
                                    const at::Tensor& hidden,
                                    const std::vector<at::Tensor>& parameters);

}  // namespace accelerate::detail
