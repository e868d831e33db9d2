// A net of two layers and a buffer, and batches for it.
#pragma once

#include <torch/torch.h>

#include <memory>
#include <utility>

#include "accelerate/accelerate.h"

namespace accelerate::testing {

struct NetImpl : torch::nn::Module {
  NetImpl() {
    in = register_module("in", torch::nn::Linear(4, 8));
    out = register_module("out", torch::nn::Linear(8, 1));
    scale = register_buffer("scale", torch::ones({1}));
  }
  at::Tensor forward(const at::Tensor& x) { return out(torch::tanh(in(x))) * scale; }
  torch::nn::Linear in{nullptr}, out{nullptr};
  at::Tensor scale;
};
TORCH_MODULE(Net);

/// Its weights are sines, from `start` on.
inline Net make_net(double start = 0.1) {
  Net net;
  torch::NoGradGuard no_grad;
  for (auto& p : net->parameters()) {
    p.copy_(torch::sin(torch::arange(p.numel(), at::kFloat) + start).view(p.sizes()));
    start += 0.7;
  }
  return net;
}

/// Shape {n, 4}.
inline at::Tensor samples(std::int64_t n) {
  return torch::cos(torch::arange(n * 4, at::kFloat) * 0.37).view({n, 4});
}

inline AcceleratorOptions on(std::shared_ptr<Communicator> comm) {
  return {.communicator = std::move(comm)};
}

}  // namespace accelerate::testing
