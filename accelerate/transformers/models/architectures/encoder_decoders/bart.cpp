// BART. Modules have the names that they have in Transformers.
// Source: Lewis et al. 2019; `modeling_bart.py` of Transformers.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/normalization.h>

#include <algorithm>
#include <cmath>

#include "accelerate/tensor/compat/leaf_memory.h"
#include "accelerate/transformers/models/architectures/encoder_decoders/bart.h"
#include "accelerate/transformers/models/layers/dropout.h"
#include "accelerate/transformers/models/layers/norm_of_sum.h"

namespace accelerate::detail {
namespace {

BartConfig read_bart(const PretrainedConfig& config) {
  check_common_keys(config);
  const auto values = read_config<BartConfig>(config);
  check_activation(config, "activation_function");
  check_padding_row(config, values.pad_token_id, "vocab_size", values.vocab_size);
  check_heads(config, {"encoder_attention_heads", values.encoder_attention_heads, "d_model",
                       values.d_model});
  check_heads(config, {"decoder_attention_heads", values.decoder_attention_heads, "d_model",
                       values.d_model});
  return values;
}

torch::nn::LayerNorm bart_norm(const BartConfig& config) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({config.d_model}));
}

std::shared_ptr<SharedEmbeddingImpl> bart_words(const BartConfig& config) {
  return std::make_shared<SharedEmbeddingImpl>(
      torch::nn::EmbeddingOptions(config.vocab_size, config.d_model)
          .padding_idx(config.pad_token_id));
}

class BartAttention final : public torch::nn::Module {
 public:
  BartAttention(const BartConfig& config, std::int64_t heads)
      : torch::nn::Module("BartAttention"),
        heads_(heads),
        k_proj_(config.d_model, config.d_model),
        v_proj_(config.d_model, config.d_model),
        q_proj_(config.d_model, config.d_model),
        out_proj_(config.d_model, config.d_model) {
    register_module("k_proj", k_proj_);
    register_module("v_proj", v_proj_);
    register_module("q_proj", q_proj_);
    register_module("out_proj", out_proj_);
  }
  // {…, H} → {…, H}
  at::Tensor forward(const at::Tensor& hidden, const Tokens& tokens, const AttentionSpec& spec) {
    return out_proj_(attention(heads_of(q_proj_(hidden)), heads_of(k_proj_(hidden)),
                               heads_of(v_proj_(hidden)), tokens, spec));
  }
  at::Tensor forward(const at::Tensor& hidden, const Tokens& tokens, const EncodedText& text) {
    const ReadText read = text.read([&](const at::Tensor& of_text) {
      return std::pair(heads_of(k_proj_(of_text)), heads_of(v_proj_(of_text)));
    });
    return out_proj_(cross_attention(heads_of(q_proj_(hidden)), tokens, read, text.spec));
  }

 private:
  at::Tensor heads_of(const at::Tensor& all) const { return all.unflatten(-1, {heads_, -1}); }

  std::int64_t heads_;
  Linear k_proj_, v_proj_, q_proj_, out_proj_;
};

// Attention, in a decoder also to the encoder's text, and a feed-forward network. Each is added to its
// input, and the sum is normed.
class BartLayer final : public torch::nn::Module {
 public:
  BartLayer(const BartConfig& config, bool is_decoder)
      : torch::nn::Module(is_decoder ? "BartDecoderLayer" : "BartEncoderLayer"),
        is_decoder_(is_decoder),
        dropout_(config.dropout),
        activation_dropout_(config.activation_dropout),
        activation_(activation_of(config.activation_function)) {
    const auto heads = is_decoder ? config.decoder_attention_heads : config.encoder_attention_heads;
    const auto inner = is_decoder ? config.decoder_ffn_dim : config.encoder_ffn_dim;
    self_ = register_module("self_attn", std::make_shared<BartAttention>(config, heads));
    self_norm_ = register_module("self_attn_layer_norm", bart_norm(config));
    if (is_decoder) {
      cross_ = register_module("encoder_attn", std::make_shared<BartAttention>(config, heads));
      cross_norm_ = register_module("encoder_attn_layer_norm", bart_norm(config));
    }
    fc1_ = register_module("fc1", Linear(config.d_model, inner));
    fc2_ = register_module("fc2", Linear(inner, config.d_model));
    final_norm_ = register_module("final_layer_norm", bart_norm(config));
  }

  // {…, H} → {…, H}. text: null in an encoder.
  at::Tensor forward(const at::Tensor& hidden, const Tokens& tokens, const AttentionSpec& spec,
                     const EncodedText* text) {
    const double dropout = is_training() ? dropout_ : 0;
    at::Tensor made =
        norm_of_sum(self_norm_, self_->forward(hidden, tokens, spec), hidden, dropout);
    if (text != nullptr)
      made = norm_of_sum(cross_norm_, cross_->forward(made, tokens, *text), made, dropout);
    const at::Tensor inner =
        dropout_of(activation_(fc1_(made)), activation_dropout_, is_training());
    made = norm_of_sum(final_norm_, fc2_(inner), made, dropout);
    return is_decoder_ ? made : clamped(made);
  }

 private:
  // fp16 overflows in large encoders.
  static at::Tensor clamped(const at::Tensor& hidden) {
    if (hidden.scalar_type() != at::kHalf || hidden.isfinite().all().item<bool>()) return hidden;
    constexpr double kMost = 65504 - 1000;
    return hidden.clamp(-kMost, kMost);
  }

  bool is_decoder_;
  double dropout_, activation_dropout_;
  Activation activation_;
  std::shared_ptr<BartAttention> self_, cross_;
  torch::nn::LayerNorm self_norm_ = nullptr, cross_norm_ = nullptr, final_norm_ = nullptr;
  Linear fc1_ = nullptr, fc2_ = nullptr;
};

// One side.
class BartStack final : public BartWeights<BaseTextModel> {
 public:
  BartStack(const PretrainedConfig& config, const BartConfig& values, bool is_decoder)
      : BartWeights(is_decoder ? "BartDecoder" : "BartEncoder", config, "model"),
        values_(values),
        is_decoder_(is_decoder) {
    embed_tokens_ = register_module("embed_tokens", bart_words(values));
    embed_positions_ = register_module(
        "embed_positions",
        torch::nn::Embedding(values.max_position_embeddings + kFirstPosition, values.d_model));
    const auto layers = is_decoder ? values.decoder_layers : values.encoder_layers;
    for (std::int64_t i = 0; i < layers; ++i)
      layers_->push_back(std::make_shared<BartLayer>(values, is_decoder));
    register_module("layers", layers_);
    if (is_decoder) expect_few_gradients(*layers_);
    layernorm_embedding_ = register_module("layernorm_embedding", bart_norm(values));
    post_init();
  }
  void share_embeddings(const torch::nn::Embedding& shared) {
    embed_tokens_->tie_weight(shared->weight);
  }
  [[nodiscard]] bool ties_embeddings() const override { return values_.tie_word_embeddings; }
  [[nodiscard]] torch::nn::Embedding input_embeddings() override {
    return std::static_pointer_cast<torch::nn::EmbeddingImpl>(embed_tokens_);
  }
  [[nodiscard]] Computed compute(const TextInputs& inputs, const HeadNeeds& needs) override {
    Computed computed{.tokens = tokens_of(inputs, needs, SequenceRule::restarts)};
    run(computed, inputs, nullptr);
    return computed;
  }
  void run(Computed& computed, const TextInputs& inputs, const EncodedText* text);

 private:
  static constexpr std::int64_t kFirstPosition = 2;

  // Returns the input of the first layer, {…, H}.
  [[nodiscard]] at::Tensor embedded(const TextInputs& inputs, const Tokens& tokens);
  // Whether a layer is left out of this step of training.
  [[nodiscard]] bool drops_layer() const {
    const double share = is_decoder_ ? values_.decoder_layerdrop : values_.encoder_layerdrop;
    return is_training() && share > 0 && at::rand({}).item<double>() < share;
  }

  BartConfig values_;
  bool is_decoder_;
  std::shared_ptr<SharedEmbeddingImpl> embed_tokens_;
  torch::nn::Embedding embed_positions_ = nullptr;
  torch::nn::ModuleList layers_;
  torch::nn::LayerNorm layernorm_embedding_ = nullptr;
};

at::Tensor BartStack::embedded(const TextInputs& inputs, const Tokens& tokens) {
  const at::Tensor positions = positions_of(inputs, tokens.past());
  check_positions(positions, tokens.past() + tokens.length() - 1, values_.max_position_embeddings,
                  inputs);
  const double scale =
      values_.scale_embedding ? std::sqrt(static_cast<double>(values_.d_model)) : 1;
  const at::Tensor words = words_of(inputs, tokens);
  const at::Tensor sum =
      (scale == 1 ? words : words * scale) +
      embed_positions_(take_positions(positions, inputs, tokens) + kFirstPosition);
  return dropout_of(layernorm_embedding_(sum), values_.dropout, is_training());
}

void BartStack::run(Computed& computed, const TextInputs& inputs, const EncodedText* text) {
  const Tokens tokens = computed.tokens;
  computed.hidden = embedded(inputs, tokens);
  AttentionSpec spec = attention_spec(computed, inputs);
  spec.dropout = is_training() ? values_.attention_dropout : 0;
  spec.mask = is_decoder_ ? causal_mask(tokens, {}, computed.hidden.device())
                          : AttentionMask{.values = tokens.mask()};
  std::optional<EncodedText> read;
  if (text != nullptr) {
    read = *text;
    read->spec.dropout = spec.dropout;
    if (read->hidden.defined()) computed.shared = {read->hidden};
    read->check_type(computed.hidden);
  }
  run_sharing_layers(computed, inputs, layers_, [&](std::size_t i) -> SharingLayer {
    if (drops_layer()) return {};
    spec.layer = i;
    if (read) read->spec.layer = i;
    return [layer = layers_->ptr<BartLayer>(i), tokens, spec,
            read](const std::vector<at::Tensor>& from) {
      if (!read) return layer->forward(from[0], tokens, spec, nullptr);
      EncodedText text = *read;
      if (text.hidden.defined()) text.hidden = from[1];
      return layer->forward(from[0], tokens, spec, &text);
    };
  });
  computed.keep_hidden(inputs);
}

// Both sides, without a head.
class BartModel final : public BartWeights<Seq2SeqModel> {
 public:
  explicit BartModel(const PretrainedConfig& config)
      : BartWeights("BartModel", config, "model"), values_(read_bart(config)) {
    shared_ = register_module("shared", bart_words(values_));
    encoder_ = register_module("encoder", std::make_shared<BartStack>(config, values_, false));
    decoder_ = register_module("decoder", std::make_shared<BartStack>(config, values_, true));
    post_init();
  }
  void tie_weights() override {
    if (!values_.tie_word_embeddings) return;
    encoder_->share_embeddings(input_embeddings());
    decoder_->share_embeddings(input_embeddings());
  }
  // As in Python, where the three are separate, all get the rows of the first.
  void resize_offsets(std::int64_t /*tokens*/) override {
    if (values_.tie_word_embeddings) return;
    for (const auto& side : {encoder_, decoder_})
      compat::materialise_(side->input_embeddings()->weight, shared_->weight.detach().clone());
  }
  [[nodiscard]] bool ties_embeddings() const override { return values_.tie_word_embeddings; }
  [[nodiscard]] torch::nn::Embedding input_embeddings() override {
    return std::static_pointer_cast<torch::nn::EmbeddingImpl>(shared_);
  }
  [[nodiscard]] std::int64_t max_positions() const override {
    return values_.max_position_embeddings;
  }
  [[nodiscard]] ParallelPlan parallel_plan() const override;
  [[nodiscard]] const BartConfig& values() const { return values_; }

 protected:
  [[nodiscard]] BaseTextModel& encoder() override { return *encoder_; }
  void decode(Computed& computed, const TextInputs& inputs, const EncodedText& text) override {
    decoder_->run(computed, inputs, &text);
  }
  // Without labels, the decoder restores the text that the encoder reads.
  [[nodiscard]] at::Tensor decoder_ids_of(const TextInputs& inputs) const override {
    return inputs.labels.defined() || !inputs.input_ids.defined()
               ? Seq2SeqModel::decoder_ids_of(inputs)
               : shifted_right(inputs.input_ids);
  }
  [[nodiscard]] DecoderTokens usual_tokens() const override { return {.start = 2, .padding = 1}; }

 private:
  BartConfig values_;
  std::shared_ptr<SharedEmbeddingImpl> shared_;
  std::shared_ptr<BartStack> encoder_, decoder_;
};

ParallelPlan BartModel::parallel_plan() const {
  using enum ParallelPlan::Cut;
  ParallelPlan plan{.pipeline = {{"shared", "encoder.embed_tokens", "encoder.embed_positions",
                                  "encoder.layernorm_embedding"},
                                 {"encoder.layers.*"},
                                 {"decoder.embed_tokens", "decoder.embed_positions",
                                  "decoder.layernorm_embedding"},
                                 {"decoder.layers.*"}}};
  for (const std::string layers : {"encoder.layers.*.", "decoder.layers.*."}) {
    for (const std::string attention : {"self_attn.", "encoder_attn."}) {
      if (layers.starts_with("encoder") && attention == "encoder_attn.") continue;
      for (const char* name : {"q_proj", "k_proj", "v_proj"})
        plan.tensor_parallel.push_back({layers + attention + name, colwise});
      plan.tensor_parallel.push_back({layers + attention + "out_proj", rowwise});
    }
    plan.tensor_parallel.push_back({layers + "fc1", colwise});
    plan.tensor_parallel.push_back({layers + "fc2", rowwise});
  }
  return plan;
}

class BartForConditionalGeneration final : public BartWeights<TextModelWithHead>, public Seq2SeqLM {
 public:
  explicit BartForConditionalGeneration(const std::shared_ptr<BartModel>& bart)
      : BartWeights(BelowHead{"BartForConditionalGeneration", bart, "model"}),
        bart_(*bart),
        lm_head_(bart->values().d_model, bart->values().vocab_size, /*has_bias=*/false) {
    final_logits_bias_ =
        register_buffer("final_logits_bias", at::zeros({1, bart->values().vocab_size}));
    register_module("lm_head", lm_head_);
    post_init();
  }
  void tie_weights() override {
    bart_.tie_weights();
    if (bart_.ties_embeddings()) lm_head_->tie_weight(input_embeddings()->weight);
  }
  void resize_offsets(std::int64_t tokens) override {
    bart_.resize_offsets(tokens);
    const std::int64_t kept = std::min(tokens, final_logits_bias_.size(1));
    compat::materialise_(final_logits_bias_,
                         at::cat({final_logits_bias_.narrow(1, 0, kept),
                                  at::zeros({1, tokens - kept}, final_logits_bias_.options())},
                                 1));
  }
  [[nodiscard]] Linear output_embeddings() override { return lm_head_; }
  [[nodiscard]] Seq2SeqModel& sides() override { return bart_; }
  [[nodiscard]] ParallelPlan parallel_plan() const override {
    ParallelPlan plan = bart_.parallel_plan().below("model");
    plan.tensor_parallel.push_back({"lm_head", ParallelPlan::Cut::colwise_gather_output});
    plan.pipeline.push_back({"lm_head"});
    return plan;
  }

 protected:
  [[nodiscard]] ModelOutput output_of(const TextInputs& inputs) override {
    return lm_output(inputs, [&](const at::Tensor& hidden) {
      const at::Tensor scores = lm_head_(hidden);
      const at::Tensor& bias = final_logits_bias_;
      return scores + (scores.dim() == 2 ? bias : bias.unsqueeze(0));
    });
  }
  void init_weights(torch::nn::Module& module, WeightInitialiser& initialiser) override {
    BartWeights::init_weights(module, initialiser);
    if (&module == this) initialiser.fill(final_logits_bias_, 0);
  }

 private:
  BartModel& bart_;
  at::Tensor final_logits_bias_;
  Linear lm_head_;
};

std::shared_ptr<BartModel> make_bart(const PretrainedConfig& config) {
  return std::make_shared<BartModel>(config);
}

}  // namespace

Architecture bart() {
  using enum Task;
  return {.model_type = "bart",
          .classes = {{base, make_bart},
                      {seq2seq_lm, with_head<BartForConditionalGeneration>(make_bart)},
                      {sequence_classification,
                       [](PretrainedConfig config) {
                         // As in Transformers, a configuration that does not say has three labels.
                         if (!config.contains("num_labels") && !config.contains("id2label"))
                           config.set_num_labels(3);
                         return bart_for_rows(make_bart(config));
                       }},
                      {question_answering,
                       [](PretrainedConfig config) {
                         config.set_num_labels(2);
                         return bart_for_answers(make_bart(config));
                       }}},
          .keys = keys_of<BartConfig>(),
          .size_keys = {.width = "d_model", .inner = "encoder_ffn_dim", .layers = "encoder_layers"},
          .aliases = {{"num_attention_heads", "encoder_attention_heads"},
                      {"hidden_size", "d_model"},
                      {"num_hidden_layers", "encoder_layers"}}};
}

}  // namespace accelerate::detail
