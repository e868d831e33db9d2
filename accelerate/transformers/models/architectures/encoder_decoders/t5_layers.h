// The layers of T5, and its configuration.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rsqrt.h>
#include <torch/nn/modules/embedding.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "accelerate/transformers/models/architecture.h"
#include "accelerate/transformers/models/architectures/seq2seq.h"
#include "accelerate/transformers/models/layers/activations.h"
#include "accelerate/transformers/models/layers/linear.h"

namespace accelerate::detail {

/// The keys of config.json, with Transformers' defaults.
struct T5Config {
  std::int64_t vocab_size = 32128;
  std::int64_t d_model = 512;
  std::int64_t d_kv = 64;  // Numbers of a head.
  std::int64_t d_ff = 2048;
  std::int64_t num_layers = 6;                          // Of the encoder.
  std::optional<std::int64_t> num_decoder_layers = {};  // num_layers if not given.
  std::int64_t num_heads = 8;
  std::int64_t relative_attention_num_buckets = 32;
  std::int64_t relative_attention_max_distance = 128;
  double dropout_rate = 0.1;
  double layer_norm_epsilon = 1e-6;
  double initializer_factor = 1;
  std::string feed_forward_proj = "relu";
  std::string dense_act_fn = {};  // This and the next say what feed_forward_proj says, if given.
  bool is_gated_act = false;
  std::optional<std::int64_t> pad_token_id = 0;
  std::optional<std::int64_t> decoder_start_token_id = {};

  template <typename Self, typename Visit>
  static void visit(Self& self, const Visit& visit) {
    visit("vocab_size", self.vocab_size, limits::kWords);
    visit("d_model", self.d_model, limits::kWidth);
    visit("d_kv", self.d_kv, limits::kWidth);
    visit("d_ff", self.d_ff, limits::kInner);
    visit("num_layers", self.num_layers, limits::kLayers);
    visit("num_decoder_layers", self.num_decoder_layers, limits::kLayers);
    visit("num_heads", self.num_heads, limits::kHeads);
    visit("relative_attention_num_buckets", self.relative_attention_num_buckets, kBuckets);
    visit("relative_attention_max_distance", self.relative_attention_max_distance, limits::kTokens);
    visit("dropout_rate", self.dropout_rate, limits::kShare);
    visit("layer_norm_epsilon", self.layer_norm_epsilon, limits::kEpsilon);
    visit("initializer_factor", self.initializer_factor, limits::kDeviation);
    visit("feed_forward_proj", self.feed_forward_proj);
    visit("dense_act_fn", self.dense_act_fn);
    visit("is_gated_act", self.is_gated_act);
    visit("pad_token_id", self.pad_token_id, limits::kTokenId);
    visit("decoder_start_token_id", self.decoder_start_token_id, limits::kTokenId);
  }
  // An encoder halves them, for keys before and behind, and half of a half are exact distances.
  static constexpr Range<std::int64_t> kBuckets{4, limits::kWords.most};

  // Derived values.
  bool is_gated = false, scales_outputs = true;
  std::string activation = {};
};

/// Throws ConfigError for values from which no model can be made.
[[nodiscard]] T5Config read_t5(const PretrainedConfig& config);

/// x / √(mean x² + ε) · w, computed in fp32 and weighted in the type of the weights, if that has 16
/// bits.
class T5LayerNormImpl : public torch::nn::Module {
 public:
  explicit T5LayerNormImpl(const T5Config& config)
      : torch::nn::Module("T5LayerNorm"), epsilon_(config.layer_norm_epsilon) {
    weight = register_parameter("weight", at::ones({config.d_model}));
  }
  at::Tensor forward(const at::Tensor& input) {
    const at::Tensor variance = input.to(at::kFloat).square().mean(-1, /*keepdim=*/true);
    const at::Tensor normed = input * at::rsqrt(variance + epsilon_);
    return weight * (at::isReducedFloatingType(weight.scalar_type())
                         ? normed.to(weight.scalar_type())
                         : normed);
  }
  at::Tensor weight;

 private:
  double epsilon_;
};
TORCH_MODULE(T5LayerNorm);

/// Returns the bucket of each distance between a query and a key, int64 {queries, keys}: near distances
/// have one each, and far distances share, the more the farther. For packed tokens: of the longest
/// sequence.
[[nodiscard]] at::Tensor t5_buckets(const T5Config& config, bool is_decoder, const Tokens& tokens,
                                    c10::Device device);

class T5Attention final : public torch::nn::Module {
 public:
  T5Attention(const T5Config& config, bool has_bias)
      : torch::nn::Module("T5Attention"),
        heads_(config.num_heads),
        q_(config.d_model, heads_ * config.d_kv, false),
        k_(config.d_model, heads_ * config.d_kv, false),
        v_(config.d_model, heads_ * config.d_kv, false),
        o_(heads_ * config.d_kv, config.d_model, false) {
    register_module("q", q_);
    register_module("k", k_);
    register_module("v", v_);
    register_module("o", o_);
    if (has_bias)
      relative_attention_bias = register_module(
          "relative_attention_bias",
          torch::nn::Embedding(config.relative_attention_num_buckets, config.num_heads));
  }
  // {…, H} → {…, H}
  at::Tensor forward(const at::Tensor& hidden, const Tokens& tokens, const AttentionSpec& spec) {
    return o_(
        attention(heads_of(q_(hidden)), heads_of(k_(hidden)), heads_of(v_(hidden)), tokens, spec));
  }
  at::Tensor forward(const at::Tensor& hidden, const Tokens& tokens, const EncodedText& text) {
    const ReadText read = text.read([&](const at::Tensor& of_text) {
      return std::pair(heads_of(k_(of_text)), heads_of(v_(of_text)));
    });
    return o_(cross_attention(heads_of(q_(hidden)), tokens, read, text.spec));
  }

  torch::nn::Embedding relative_attention_bias = nullptr;

 private:
  at::Tensor heads_of(const at::Tensor& all) const { return all.unflatten(-1, {heads_, -1}); }

  std::int64_t heads_;
  Linear q_, k_, v_, o_;
};

/// Attention, in a decoder also to the encoder's text, and a feed-forward network. Each is applied to
/// its normed input and added to its input.
class T5Block final : public torch::nn::Module {
 public:
  T5Block(const T5Config& config, bool is_decoder, bool has_bias);
  [[nodiscard]] T5Attention& self_attention() const { return *self_; }
  /// {…, H} → {…, H}. text: null in an encoder.
  [[nodiscard]] at::Tensor forward(const at::Tensor& hidden, const Tokens& tokens,
                                   const AttentionSpec& spec, const EncodedText* text);

 private:
  [[nodiscard]] at::Tensor dropped(const at::Tensor& x) const;
  [[nodiscard]] at::Tensor feed(const at::Tensor& normed);

  double dropout_;
  Activation activation_;
  std::shared_ptr<T5Attention> self_, cross_;
  T5LayerNorm self_norm_ = nullptr, cross_norm_ = nullptr, feed_norm_ = nullptr;
  Linear wi_ = nullptr, wi_1_ = nullptr, wo_ = nullptr;
};

}  // namespace accelerate::detail
