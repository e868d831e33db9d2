// Layers that keep nothing for their backward but their input.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace accelerate::detail {

/// Returns layer(inputs) without keeping its intermediate results: backward computes them again. It
/// uses the random numbers and the autocast of this call, so that gradients are the same to the
/// bit. If gradients are off, it only calls `layer`.
/// `inputs`: the results with gradients that `layer` reads: the hidden states, and what several layers
/// share. `parameters`: the leaves that `layer` reads and that may need gradients. They take part in
/// the graph as usual, so that engines see them. `layer` must not change anything, and what it
/// captures must live until backward.
/// Cost: a second forward; memory: `inputs`, and the state of the generators (5 KB on a CPU).
/// Source: `torch.utils.checkpoint`; Chen et al., "Training Deep Nets with Sublinear Memory Cost",
/// 2016.
[[nodiscard]] at::Tensor recomputed(
    const std::function<at::Tensor(const std::vector<at::Tensor>&)>& layer,
    const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& parameters);

}  // namespace accelerate::detail
