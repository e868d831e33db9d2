// The network of both programs: two convolutions, two fully connected layers, 206,922 weights.
#pragma once

#include <torch/torch.h>

struct NetImpl : torch::nn::Module {
  /// images: uint8 {n, 1, 28, 28}. Returns the scores of the ten classes, float32 {n, 10}.
  torch::Tensor forward(torch::Tensor images) {
    // The mean and the standard deviation of the training images: weights then start in range.
    auto x = (images.to(torch::kFloat32) / 255 - 0.2860) / 0.3530;
    x = torch::max_pool2d(torch::relu(conv1(x)), 2);
    x = torch::max_pool2d(torch::relu(conv2(x)), 2);
    x = torch::relu(hidden(x.flatten(1)));
    return scores(x);
  }

  torch::nn::Conv2d conv1 = register_module("conv1", conv(1, 16));
  torch::nn::Conv2d conv2 = register_module("conv2", conv(16, 32));
  torch::nn::Linear hidden = register_module("hidden", torch::nn::Linear(32 * 7 * 7, 128));
  torch::nn::Linear scores = register_module("scores", torch::nn::Linear(128, 10));

 private:
  static torch::nn::Conv2d conv(int64_t in, int64_t out) {
    return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, 3).padding(1));
  }
};
TORCH_MODULE(Net);
