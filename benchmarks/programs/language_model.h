// A small language model with 27 million weights. originals/fsdp2_steps.py has the same in Python.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

namespace bench {

inline constexpr std::int64_t kVocabulary = 8000, kWidth = 512, kHeads = 8, kLayers = 6;
inline constexpr std::int64_t kBatchSize = 4, kTokens = 64;

struct BlockImpl : torch::nn::Module {
  BlockImpl() {
    attention_norm = register_module("attention_norm", norm());
    qkv = register_module("qkv", torch::nn::Linear(kWidth, 3 * kWidth));
    out = register_module("out", torch::nn::Linear(kWidth, kWidth));
    norm_2 = register_module("norm_2", norm());
    up = register_module("up", torch::nn::Linear(kWidth, 4 * kWidth));
    down = register_module("down", torch::nn::Linear(4 * kWidth, kWidth));
  }
  static torch::nn::LayerNorm norm() {
    return torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth}));
  }
  at::Tensor forward(at::Tensor x) {
    const auto rows = x.size(0), tokens = x.size(1);
    const auto heads = qkv(attention_norm(x))
                           .view({rows, tokens, 3, kHeads, kWidth / kHeads})
                           .permute({2, 0, 3, 1, 4});
    const auto attended = at::scaled_dot_product_attention(heads[0], heads[1], heads[2]);
    x = x + out(attended.transpose(1, 2).reshape({rows, tokens, kWidth}));
    return x + down(torch::gelu(up(norm_2(x))));
  }
  torch::nn::LayerNorm attention_norm{nullptr}, norm_2{nullptr};
  torch::nn::Linear qkv{nullptr}, out{nullptr}, up{nullptr}, down{nullptr};
};
TORCH_MODULE(Block);

struct NetImpl : torch::nn::Module {
  NetImpl() {
    embedding = register_module("embedding", torch::nn::Embedding(kVocabulary, kWidth));
    for (int i = 0; i < kLayers; ++i)
      blocks.push_back(register_module("block" + std::to_string(i), Block()));
    head = register_module("head", torch::nn::Linear(kWidth, kVocabulary));
  }
  at::Tensor forward(at::Tensor x) {
    x = embedding(x);
    for (auto& block : blocks) x = block(x);
    return head(x);
  }
  torch::nn::Embedding embedding{nullptr};
  std::vector<Block> blocks;
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(Net);

}  // namespace bench
