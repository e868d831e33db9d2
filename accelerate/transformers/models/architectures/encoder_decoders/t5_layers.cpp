#include "accelerate/transformers/models/architectures/encoder_decoders/t5_layers.h"

#include <ATen/ops/abs.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/log.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <cmath>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/transformers/models/layers/dropout.h"

namespace accelerate::detail {
namespace {

// Reads whether the feed-forward networks are gated, and their activation.
void read_feed_forward(const PretrainedConfig& config, T5Config& values) {
  const auto parts = split(values.feed_forward_proj, '-');
  const bool is_gated = parts.size() == 2 && parts.front() == "gated";
  const std::string allowed = "the name of an activation, alone or behind 'gated-'";
  if (parts.size() != 1 && !is_gated) config.refuse("feed_forward_proj", allowed);
  values.is_gated = config.contains("is_gated_act") ? values.is_gated_act : is_gated;
  if (config.contains("dense_act_fn")) {
    check_activation(config, "dense_act_fn");
    values.activation = values.dense_act_fn;
    return;
  }
  values.activation =
      values.feed_forward_proj == "gated-gelu" ? "gelu_new" : std::string(parts.back());
  try {
    (void)activation_of(values.activation);
  } catch (const ConfigError& error) {
    config.refuse("feed_forward_proj", allowed + ": " + error.what());
  }
}

}  // namespace

T5Config read_t5(const PretrainedConfig& config) {
  check_common_keys(config);
  auto values = read_config<T5Config>(config);
  if (values.relative_attention_max_distance <= values.relative_attention_num_buckets / 2)
    config.refuse("relative_attention_max_distance",
                  "more than half of 'relative_attention_num_buckets', " +
                      std::to_string(values.relative_attention_num_buckets));
  read_feed_forward(config, values);
  // What T5 v1.1 says of its embeddings says whether outputs are scaled. Weights are tied anyway, or
  // not, as the files have them.
  values.scales_outputs =
      config.get<bool>("scale_decoder_outputs", config.get<bool>("tie_word_embeddings", true));
  return values;
}

at::Tensor t5_buckets(const T5Config& config, bool is_decoder, const Tokens& tokens,
                      c10::Device device) {
  const std::int64_t past = tokens.past(), length = tokens.is_packed()
                                                        ? std::ranges::max(tokens.lengths())
                                                        : tokens.length();
  const auto options = at::TensorOptions(at::kLong).device(device);
  const at::Tensor query = at::arange(past, past + length, options).unsqueeze(1);
  const at::Tensor ahead = at::arange(past + length, options).unsqueeze(0) - query;
  const std::int64_t count = config.relative_attention_num_buckets / (is_decoder ? 1 : 2);
  const at::Tensor distance = is_decoder ? (-ahead).clamp_min(0) : at::abs(ahead);
  const std::int64_t exact = count / 2;
  const double span = std::log(static_cast<double>(config.relative_attention_max_distance) /
                               static_cast<double>(exact));
  const at::Tensor far =
      exact + (at::log(distance.clamp_min(1).to(at::kFloat) / exact) / span * (count - exact))
                  .to(at::kLong);
  const at::Tensor bucket = at::where(distance < exact, distance, far.clamp_max(count - 1));
  return is_decoder ? bucket : bucket + ahead.gt(0).to(at::kLong) * count;
}

T5Block::T5Block(const T5Config& config, bool is_decoder, bool has_bias)
    : torch::nn::Module("T5Block"),
      dropout_(config.dropout_rate),
      activation_(activation_of(config.activation)) {
  auto& layers = part(*this, "layer", "ModuleList");
  auto& self = part(layers, "0", "T5LayerSelfAttention");
  self_ = self.register_module("SelfAttention", std::make_shared<T5Attention>(config, has_bias));
  self_norm_ = self.register_module("layer_norm", T5LayerNorm(config));
  if (is_decoder) {
    auto& cross = part(layers, "1", "T5LayerCrossAttention");
    cross_ = cross.register_module("EncDecAttention", std::make_shared<T5Attention>(config, false));
    cross_norm_ = cross.register_module("layer_norm", T5LayerNorm(config));
  }
  auto& feed = part(layers, is_decoder ? "2" : "1", "T5LayerFF");
  auto& dense =
      part(feed, "DenseReluDense", config.is_gated ? "T5DenseGatedActDense" : "T5DenseActDense");
  const auto inward = [&](const char* name) {
    return dense.register_module(name, Linear(config.d_model, config.d_ff, false));
  };
  wi_ = inward(config.is_gated ? "wi_0" : "wi");
  if (config.is_gated) wi_1_ = inward("wi_1");
  wo_ = dense.register_module("wo", Linear(config.d_ff, config.d_model, false));
  feed_norm_ = feed.register_module("layer_norm", T5LayerNorm(config));
}

namespace {

// fp16 overflows in large models.
at::Tensor clamped(const at::Tensor& hidden) {
  if (hidden.scalar_type() != at::kHalf) return hidden;
  constexpr double kMost = 65504, kRoom = 1000;
  const double most = hidden.isinf().any().item<bool>() ? kMost - kRoom : kMost;
  return hidden.clamp(-most, most);
}

}  // namespace

at::Tensor T5Block::forward(const at::Tensor& hidden, const Tokens& tokens,
                            const AttentionSpec& spec, const EncodedText* text) {
  at::Tensor sum = clamped(hidden + dropped(self_->forward(self_norm_(hidden), tokens, spec)));
  if (text != nullptr)
    sum = clamped(sum + dropped(cross_->forward(cross_norm_(sum), tokens, *text)));
  return clamped(sum + dropped(feed(feed_norm_(sum))));
}

at::Tensor T5Block::dropped(const at::Tensor& x) const {
  return dropout_of(x, dropout_, is_training());
}

at::Tensor T5Block::feed(const at::Tensor& normed) {
  at::Tensor inner = activation_(wi_(normed));
  if (!wi_1_.is_empty()) inner = inner * wi_1_(normed);
  inner = dropped(inner);
  // In a model of fp16 this weight has fp32.
  const bool is_wider = inner.scalar_type() == at::kHalf && wo_->weight.scalar_type() == at::kFloat;
  return wo_(is_wider ? inner.to(at::kFloat) : inner);
}

}  // namespace accelerate::detail
