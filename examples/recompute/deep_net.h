// A network of eight equal blocks, as it would be without any thought of memory.
#pragma once

#include "examples/common/spirals.h"

namespace deep {

struct BlockImpl : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) { return x + down(torch::gelu(up(norm(x)))); }
  torch::nn::LayerNorm norm =
      register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({32})));
  torch::nn::Linear up = register_module("up", torch::nn::Linear(32, 128));
  torch::nn::Linear down = register_module("down", torch::nn::Linear(128, 32));
};
TORCH_MODULE(Block);

struct NetImpl : torch::nn::Module {
  NetImpl() {
    for (int i = 0; i < 8; ++i) blocks->push_back(Block());
  }
  /// points: float32 {n, 2}. Returns the scores of both spirals, float32 {n, 2}.
  torch::Tensor forward(const torch::Tensor& points) { return out(blocks->forward(in(points))); }
  torch::nn::Linear in = register_module("in", torch::nn::Linear(2, 32));
  torch::nn::Sequential blocks = register_module("blocks", torch::nn::Sequential());
  torch::nn::Linear out = register_module("out", torch::nn::Linear(32, 2));
};
TORCH_MODULE(Net);

}  // namespace deep
