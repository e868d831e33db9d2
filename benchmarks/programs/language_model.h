// A language model; as it stands by itself, of 27 million weights. originals/language_model.py has
// the same in Python.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

namespace bench {

inline constexpr std::int64_t kVocabulary = 8000, kBatchSize = 4, kTokens = 64;

struct ModelSizes {
  std::int64_t vocabulary = kVocabulary, width = 512, heads = 8, layers = 6;
  bool causal = false;  // A token sees those before it alone.
};

// torch::nn::Linear adds the bias of three dimensions in a pass of its own; this and Python's do not.
inline at::Tensor linear(const torch::nn::Linear& layer, const at::Tensor& x) {
  return torch::linear(x, layer->weight, layer->bias);
}

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(const ModelSizes& sizes) : heads(sizes.heads), causal(sizes.causal) {
    const auto width = sizes.width;
    attention_norm = register_module("attention_norm", norm(width));
    qkv = register_module("qkv", torch::nn::Linear(width, 3 * width));
    out = register_module("out", torch::nn::Linear(width, width));
    norm_2 = register_module("norm_2", norm(width));
    up = register_module("up", torch::nn::Linear(width, 4 * width));
    down = register_module("down", torch::nn::Linear(4 * width, width));
  }
  static torch::nn::LayerNorm norm(std::int64_t width) {
    return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}));
  }
  at::Tensor forward(at::Tensor x) {
    const auto rows = x.size(0), tokens = x.size(1), width = x.size(2);
    const auto split = linear(qkv, attention_norm(x))
                           .view({rows, tokens, 3, heads, width / heads})
                           .permute({2, 0, 3, 1, 4})
                           .unbind(0);
    const auto attended =
        at::scaled_dot_product_attention(split[0], split[1], split[2],
                                         /*attn_mask=*/{}, /*dropout_p=*/0.0, causal);
    x = x + linear(out, attended.transpose(1, 2).reshape({rows, tokens, width}));
    return x + linear(down, torch::gelu(linear(up, norm_2(x))));
  }
  std::int64_t heads;
  bool causal;
  torch::nn::LayerNorm attention_norm{nullptr}, norm_2{nullptr};
  torch::nn::Linear qkv{nullptr}, out{nullptr}, up{nullptr}, down{nullptr};
};
TORCH_MODULE(Block);

struct NetImpl : torch::nn::Module {
  explicit NetImpl(const ModelSizes& sizes = {}) {
    embedding = register_module("embedding", torch::nn::Embedding(sizes.vocabulary, sizes.width));
    for (int i = 0; i < sizes.layers; ++i)
      blocks.push_back(register_module("block" + std::to_string(i), Block(sizes)));
    head = register_module("head", torch::nn::Linear(sizes.width, sizes.vocabulary));
  }
  at::Tensor forward(at::Tensor x) {
    x = embedding(x);
    for (auto& block : blocks) x = block(x);
    return linear(head, x);
  }
  torch::nn::Embedding embedding{nullptr};
  std::vector<Block> blocks;
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(Net);

}  // namespace bench
