// A model as users write them: buffers from arithmetic, own initialisation, values in a
// constructor.
#pragma once

#include <torch/torch.h>

namespace accelerate::testing {

struct BlockImpl : torch::nn::Module {
  BlockImpl(std::int64_t width, double drop_rate)
      : linear(register_module("linear", torch::nn::Linear(width, width))) {
    gain = register_parameter("gain", torch::ones({width}) * (1 - drop_rate));
    register_parameter("frozen", torch::rand({2}), /*requires_grad=*/false);
  }
  at::Tensor forward(const at::Tensor& input) { return input + linear(input) * gain; }
  torch::nn::Linear linear;
  at::Tensor gain;
};
TORCH_MODULE(Block);

struct UserNetImpl : torch::nn::Module {
  static constexpr std::int64_t kWords = 10, kWidth = 6;
  UserNetImpl()
      : embed(register_module("embed", torch::nn::Embedding(kWords, kWidth))),
        blocks(register_module("blocks", torch::nn::ModuleList())),
        head(register_module("head", torch::nn::Linear(kWidth, kWords))) {
    const auto rates = torch::linspace(0, 0.3, 3);
    for (int i = 0; i < 3; ++i) blocks->push_back(Block(kWidth, rates[i].item<double>()));
    const auto place = torch::arange(8, torch::kFloat).unsqueeze(1);
    const auto scale = torch::exp(torch::arange(0, kWidth, torch::kFloat) * -0.5);
    places = register_buffer("places", torch::sin(place * scale).unsqueeze(0));
    initialise();
  }
  at::Tensor forward(const at::Tensor& words) {
    auto hidden = embed(words) + places.slice(1, 0, words.size(1));
    for (const auto& block : *blocks) hidden = block->as<Block>()->forward(hidden);
    return head(hidden);
  }
  torch::nn::Embedding embed;
  torch::nn::ModuleList blocks;
  torch::nn::Linear head;
  at::Tensor places;

 private:
  void initialise() {
    const torch::NoGradGuard no_grad;
    for (auto& module : modules(/*include_self=*/false)) {
      if (auto* linear = module->as<torch::nn::Linear>()) {
        torch::nn::init::xavier_normal_(linear->weight, 0.1);
        torch::nn::init::zeros_(linear->bias);
      }
    }
    head->weight.mul_(0.5);
  }
};
TORCH_MODULE(UserNet);

}  // namespace accelerate::testing
