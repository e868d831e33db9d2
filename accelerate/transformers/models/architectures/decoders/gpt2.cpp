// GPT-2. Modules have the names that they have in Transformers.
// Source: Radford et al. 2019; `modeling_gpt2.py` of Transformers.
#include <ATen/TensorOperators.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/normalization.h>

#include <cmath>

#include "accelerate/base/error.h"
#include "accelerate/transformers/models/architectures/heads.h"
#include "accelerate/transformers/models/layers/dropout.h"

namespace accelerate::detail {
namespace {

// The keys of config.json, with Transformers' defaults.
struct GPT2Config {
  std::int64_t vocab_size = 50257;
  std::int64_t n_positions = 1024;
  std::int64_t n_embd = 768;
  std::int64_t n_layer = 12;
  std::int64_t n_head = 12;
  std::optional<std::int64_t> n_inner = {};  // 4 · n_embd if not given.
  std::string activation_function = "gelu_new";
  double resid_pdrop = 0.1;
  double embd_pdrop = 0.1;
  double attn_pdrop = 0.1;
  double layer_norm_epsilon = 1e-5;
  double initializer_range = 0.02;
  bool scale_attn_weights = true;
  bool scale_attn_by_inverse_layer_idx = false;
  bool tie_word_embeddings = true;

  template <typename Self, typename Visit>
  static void visit(Self& self, const Visit& visit) {
    visit("vocab_size", self.vocab_size, limits::kWords);
    visit("n_positions", self.n_positions, limits::kWords);
    visit("n_embd", self.n_embd, limits::kWidth);
    visit("n_layer", self.n_layer, limits::kLayers);
    visit("n_head", self.n_head, limits::kHeads);
    visit("n_inner", self.n_inner, limits::kInner);
    visit("activation_function", self.activation_function);
    visit("resid_pdrop", self.resid_pdrop, limits::kShare);
    visit("embd_pdrop", self.embd_pdrop, limits::kShare);
    visit("attn_pdrop", self.attn_pdrop, limits::kShare);
    visit("layer_norm_epsilon", self.layer_norm_epsilon, limits::kEpsilon);
    visit("initializer_range", self.initializer_range, limits::kDeviation);
    visit("scale_attn_weights", self.scale_attn_weights);
    visit("scale_attn_by_inverse_layer_idx", self.scale_attn_by_inverse_layer_idx);
    visit("tie_word_embeddings", self.tie_word_embeddings);
  }
};

torch::nn::LayerNorm gpt2_norm(const GPT2Config& config) {
  return torch::nn::LayerNorm(
      torch::nn::LayerNormOptions({config.n_embd}).eps(config.layer_norm_epsilon));
}

GPT2Config read_gpt2(const PretrainedConfig& config) {
  if (config.get<bool>("add_cross_attention", false))
    throw ConfigError(config.name() +
                      ": 'add_cross_attention' is true; allowed is GPT-2 by itself");
  if (config.get<bool>("reorder_and_upcast_attn", false))
    throw ConfigError(config.name() + ": 'reorder_and_upcast_attn' is true; allowed is false");
  check_common_keys(config);
  const auto values = read_config<GPT2Config>(config);
  check_activation(config, "activation_function");
  check_heads(config, {"n_head", values.n_head, "n_embd", values.n_embd});
  return values;
}

double gpt2_scale(const GPT2Config& config, std::int64_t layer) {
  const auto dim = static_cast<double>(config.n_embd / config.n_head);
  const double scale = config.scale_attn_weights ? 1 / std::sqrt(dim) : 1;
  return config.scale_attn_by_inverse_layer_idx ? scale / static_cast<double>(layer + 1) : scale;
}

// Attention and a feed-forward network. Each is applied to its normed input and added to its input.
class GPT2Block final : public torch::nn::Module {
 public:
  GPT2Block(const GPT2Config& config, std::int64_t index)
      : torch::nn::Module("GPT2Block"),
        heads_(config.n_head),
        scale_(gpt2_scale(config, index)),
        attention_dropout_(config.attn_pdrop),
        dropout_(config.resid_pdrop),
        activation_(activation_of(config.activation_function)),
        ln_1_(gpt2_norm(config)),
        ln_2_(gpt2_norm(config)),
        c_attn_(config.n_embd, 3 * config.n_embd),
        attention_c_proj_(config.n_embd, config.n_embd),
        c_fc_(config.n_embd, config.n_inner.value_or(4 * config.n_embd)),
        mlp_c_proj_(config.n_inner.value_or(4 * config.n_embd), config.n_embd) {
    register_module("ln_1", ln_1_);
    auto& attention = part(*this, "attn", "GPT2Attention");
    attention.register_module("c_attn", c_attn_);
    attention.register_module("c_proj", attention_c_proj_);
    register_module("ln_2", ln_2_);
    auto& mlp = part(*this, "mlp", "GPT2MLP");
    mlp.register_module("c_fc", c_fc_);
    mlp.register_module("c_proj", mlp_c_proj_);
  }

  // {…, H} → {…, H}
  at::Tensor forward(const at::Tensor& hidden, const Tokens& tokens, AttentionSpec spec) {
    spec.scale = scale_;
    spec.dropout = is_training() ? attention_dropout_ : 0;
    const auto dropped = [&](const at::Tensor& x) {
      return dropout_of(x, dropout_, is_training());
    };
    const auto parts = c_attn_(ln_1_(hidden)).chunk(3, -1);
    const auto heads_of = [&](const at::Tensor& all) { return all.unflatten(-1, {heads_, -1}); };
    const at::Tensor context =
        attention(heads_of(parts[0]), heads_of(parts[1]), heads_of(parts[2]), tokens, spec);
    const at::Tensor attended = dropped(attention_c_proj_(context)) + hidden;
    return attended + dropped(mlp_c_proj_(activation_(c_fc_(ln_2_(attended)))));
  }

 private:
  std::int64_t heads_;
  double scale_, attention_dropout_, dropout_;
  Activation activation_;
  torch::nn::LayerNorm ln_1_, ln_2_;
  Conv1D c_attn_, attention_c_proj_, c_fc_, mlp_c_proj_;
};

// The decoder alone. token_type_ids are ids of words, whose embeddings are added.
class GPT2Model final : public DecoderModel {
 public:
  explicit GPT2Model(const PretrainedConfig& config)
      : DecoderModel("GPT2Model", config, "transformer"), values_(read_gpt2(config)) {
    wte_ = register_module("wte", torch::nn::Embedding(values_.vocab_size, values_.n_embd));
    wpe_ = register_module("wpe", torch::nn::Embedding(values_.n_positions, values_.n_embd));
    for (std::int64_t i = 0; i < values_.n_layer; ++i)
      h_->push_back(std::make_shared<GPT2Block>(values_, i));
    register_module("h", h_);
    ln_f_ = register_module("ln_f", gpt2_norm(values_));
    post_init();
  }
  [[nodiscard]] bool ties_embeddings() const override { return values_.tie_word_embeddings; }
  [[nodiscard]] torch::nn::Embedding input_embeddings() override { return wte_; }
  [[nodiscard]] std::int64_t max_positions() const override { return values_.n_positions; }
  [[nodiscard]] std::vector<std::string> no_split_modules() const override { return {"GPT2Block"}; }
  [[nodiscard]] ParallelPlan parallel_plan() const override {
    using enum ParallelPlan::Cut;
    return {.tensor_parallel = {{"h.*.attn.c_attn", colwise, /*parts=*/3},
                                {"h.*.attn.c_proj", rowwise},
                                {"h.*.mlp.c_fc", colwise},
                                {"h.*.mlp.c_proj", rowwise}},
            .pipeline = {{"wte", "wpe"}, {"h.*"}, {"ln_f"}}};
  }
  [[nodiscard]] bool ignores(const std::string& name) const override {
    // Older files hold masks.
    return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
           DecoderModel::ignores(name);
  }
  [[nodiscard]] Computed compute(const TextInputs& inputs, const HeadNeeds& needs) override;

 protected:
  void init_weights(torch::nn::Module& module, WeightInitialiser& initialiser) override {
    DecoderModel::init_weights(module, initialiser);
    // Two layers of each block are added to the residual path, which grows with the depth: their
    // weights begin smaller.
    if (module.name() != "GPT2Attention" && module.name() != "GPT2MLP") return;
    const auto projection = module.named_children()["c_proj"];
    initialiser.normal_again(
        projection->as<Conv1D>()->weight,
        values_.initializer_range / std::sqrt(2.0 * static_cast<double>(values_.n_layer)));
  }

 private:
  GPT2Config values_;
  torch::nn::Embedding wte_ = nullptr, wpe_ = nullptr;
  torch::nn::ModuleList h_;
  torch::nn::LayerNorm ln_f_ = nullptr;
};

Computed GPT2Model::compute(const TextInputs& inputs, const HeadNeeds& needs) {
  auto computed = begin(inputs, needs);
  const Tokens& tokens = computed.tokens;
  const at::Tensor positions = positions_of(inputs, tokens.past());
  const at::Tensor words = words_of(inputs, tokens);
  check_positions(positions, tokens.past() + tokens.length() - 1, values_.n_positions, inputs);
  computed.hidden = words + wpe_(take_positions(positions, inputs, tokens));
  if (inputs.token_type_ids.defined()) {
    const at::Tensor types = token_types_of(inputs, vocab_size());
    computed.hidden = computed.hidden + wte_(tokens.take(types));
  }
  computed.hidden = dropout_of(computed.hidden, values_.embd_pdrop, is_training());
  AttentionSpec spec = attention_spec(computed, inputs);
  spec.mask = causal_mask(tokens, {}, computed.hidden.device());
  run_layers(computed, inputs, h_, [&](std::size_t i) {
    spec.layer = i;
    return [block = h_->ptr<GPT2Block>(i), tokens, spec](const at::Tensor& hidden) {
      return block->forward(hidden, tokens, spec);
    };
  });
  computed.hidden = ln_f_(computed.hidden);
  computed.keep_hidden(inputs);
  return computed;
}

GgufNames gpt2_gguf() {
  using enum GgufNames::Step;
  return {.architecture = "gpt2",
          .integers = {{"block_count", "n_layer"},
                       {"context_length", "n_ctx"},
                       {"embedding_length", "n_embd"},
                       {"feed_forward_length", "feed_forward_length"},
                       {"attention.head_count", "n_head"}},
          .numbers = {{"attention.layer_norm_epsilon", "layer_norm_epsilon"}},
          .outside = {{"token_embd", "transformer.wte"},
                      {"position_embd", "transformer.wpe"},
                      {"output_norm", "transformer.ln_f"},
                      {"output", "lm_head"}},
          .layers = "transformer.h.",
          .inside = {{"attn_qkv", "attn.c_attn"},
                     {"attn_output", "attn.c_proj"},
                     {"attn_norm", "ln_1"},
                     {"ffn_norm", "ln_2"},
                     {"ffn_up", "mlp.c_fc"},
                     {"ffn_down", "mlp.c_proj"}},
          .steps = {{"attn_qkv", transpose},
                    {"attn_output", transpose},
                    {"ffn_up", transpose},
                    {"ffn_down", transpose}}};
}

}  // namespace

Architecture gpt2() {
  return {.model_type = "gpt2",
          .classes = decoder_classes(
              {.prefix = "GPT2",
               .causal_lm = "LMHeadModel",
               .base = "transformer",
               .base_of_question_answering = "transformer",
               .head_of_tokens = "classifier"},
              [](const PretrainedConfig& config) { return std::make_shared<GPT2Model>(config); }),
          .keys = keys_of<GPT2Config>(),
          .size_keys = {.width = "n_embd", .inner = "n_inner", .layers = "n_layer"},
          .aliases = {{"hidden_size", "n_embd"},
                      {"max_position_embeddings", "n_positions"},
                      {"num_attention_heads", "n_head"},
                      {"num_hidden_layers", "n_layer"}},
          .gguf = gpt2_gguf()};
}

}  // namespace accelerate::detail
