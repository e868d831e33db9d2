// T5, T5 v1.1 and FLAN-T5. Modules have the names that they have in Transformers.
// Source: Raffel et al. 2020; `modeling_t5.py` of Transformers.
#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/modules/embedding.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "accelerate/tensor/weights.h"
#include "accelerate/transformers/models/architecture.h"
#include "accelerate/transformers/models/architectures/encoder_decoders/t5_layers.h"
#include "accelerate/transformers/models/architectures/seq2seq.h"
#include "accelerate/transformers/models/layers/dropout.h"
#include "accelerate/transformers/models/layers/linear.h"

namespace accelerate::detail {
namespace {

// What all models of T5 have in common: how weights begin, and what files may have.
template <typename Base>
class T5Weights : public Base {
 public:
  using Base::Base;
  [[nodiscard]] std::vector<std::string> no_split_modules() const override { return {"T5Block"}; }
  [[nodiscard]] bool ignores(const std::string& name) const override {
    // Older files hold a bias that is not used.
    return name == "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight" ||
           Base::ignores(name);
  }
  [[nodiscard]] bool stays_in_fp32(const std::string& name) const override {
    return name.ends_with(".wo.weight");
  }

 protected:
  [[nodiscard]] double usual_deviation() const override;
  void init_weights(torch::nn::Module& module, WeightInitialiser& initialiser) override;
};

template <typename Base>
double T5Weights<Base>::usual_deviation() const {
  return read_config<T5Config>(this->config()).initializer_factor;
}

template <typename Base>
void T5Weights<Base>::init_weights(torch::nn::Module& module, WeightInitialiser& initialiser) {
  const auto values = read_config<T5Config>(this->config());
  const double factor = values.initializer_factor;
  const auto wide = [&](std::int64_t numbers) {
    return factor / std::sqrt(static_cast<double>(numbers));
  };
  const auto draw = [&](const char* name, double deviation) {
    const auto children = module.named_children();
    if (!children.contains(name)) return;
    at::Tensor weight = children[name]->named_parameters(/*recurse=*/false)["weight"];
    initialiser.normal_again(weight, deviation);
  };
  if (auto* norm = dynamic_cast<T5LayerNormImpl*>(&module))
    return initialiser.fill(norm->weight, factor);
  initialiser.usual(module, factor);
  if (&module == this) {
    draw("shared", factor);
  } else if (module.name() == "T5Attention") {
    draw("q", wide(values.d_model * values.d_kv));
    draw("k", wide(values.d_model));
    draw("v", wide(values.d_model));
    draw("o", wide(values.num_heads * values.d_kv));
    draw("relative_attention_bias", wide(values.d_model));
  } else if (module.name() == "T5DenseActDense" || module.name() == "T5DenseGatedActDense") {
    for (const char* name : {"wi", "wi_0", "wi_1"}) draw(name, wide(values.d_model));
    draw("wo", wide(values.d_ff));
  }
}

// Returns `text` with numbers that are added to scores in place of booleans. As in Python, a row without
// any token then attends to all its places alike; LibTorch's kernels give zeros for booleans.
// hidden: has the type and device of the layers' input.
Tokens with_added_mask(const Tokens& text, const at::Tensor& hidden) {
  if (!text.mask().defined()) return text;
  const auto device = hidden.device();
  const auto type = at::autocast::is_autocast_enabled(device.type())
                        ? at::autocast::get_autocast_dtype(device.type())
                        : hidden.scalar_type();
  const auto zeros = at::zeros({1, 1, 1, text.length()}, hidden.options().dtype(type));
  const at::Tensor added = with_bias({.values = text.mask()}, zeros).values;
  return {text.rows(), text.length(), added, {.packs = false, .device = device}};
}

// One side.
class T5Stack final : public T5Weights<BaseTextModel> {
 public:
  T5Stack(const PretrainedConfig& config, const T5Config& values, bool is_decoder)
      : T5Weights("T5Stack", config, "transformer"), values_(values), is_decoder_(is_decoder) {
    embed_tokens_ = register_module(
        "embed_tokens", std::make_shared<SharedEmbeddingImpl>(values_.vocab_size, values_.d_model));
    const std::int64_t layers =
        is_decoder ? values_.num_decoder_layers.value_or(values_.num_layers) : values_.num_layers;
    for (std::int64_t i = 0; i < layers; ++i)
      block_->push_back(std::make_shared<T5Block>(values_, is_decoder, /*has_bias=*/i == 0));
    register_module("block", block_);
    if (is_decoder) expect_few_gradients(*block_);
    final_layer_norm_ = register_module("final_layer_norm", T5LayerNorm(values_));
    post_init();
  }
  void share_embeddings(const torch::nn::Embedding& shared) {
    embed_tokens_->tie_weight(shared->weight);
  }
  [[nodiscard]] bool ties_embeddings() const override { return true; }
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
  // Returns {1, heads, queries, keys}.
  [[nodiscard]] at::Tensor bias_of(const Tokens& tokens, c10::Device device) const;

  T5Config values_;
  bool is_decoder_;
  std::shared_ptr<SharedEmbeddingImpl> embed_tokens_;
  torch::nn::ModuleList block_;
  T5LayerNorm final_layer_norm_ = nullptr;
};

at::Tensor T5Stack::bias_of(const Tokens& tokens, c10::Device device) const {
  const at::Tensor buckets = t5_buckets(values_, is_decoder_, tokens, device);
  auto table = block_->ptr<T5Block>(0)->self_attention().relative_attention_bias;
  return table(buckets).permute({2, 0, 1}).unsqueeze(0);
}

void T5Stack::run(Computed& computed, const TextInputs& inputs, const EncodedText* text) {
  const Tokens tokens = computed.tokens;
  const auto dropped = [&](const at::Tensor& x) {
    return dropout_of(x, values_.dropout_rate, is_training());
  };
  computed.hidden = dropped(words_of(inputs, tokens));
  const c10::Device device = computed.hidden.device();
  AttentionSpec spec = attention_spec(computed, inputs);
  spec.scale = 1;
  spec.dropout = is_training() ? values_.dropout_rate : 0;
  if (!block_->is_empty()) {
    spec.mask = with_bias(
        is_decoder_ ? causal_mask(tokens, {}, device) : AttentionMask{.values = tokens.mask()},
        bias_of(tokens, device));
    computed.shared = {spec.mask.values};
  }
  std::optional<EncodedText> read;
  if (text != nullptr) {
    read = *text;
    read->check_type(computed.hidden);
    read->tokens = with_added_mask(read->tokens, computed.hidden);
    read->spec.scale = 1;
    read->spec.dropout = spec.dropout;
    if (read->hidden.defined()) computed.shared.push_back(read->hidden);
  }
  run_sharing_layers(computed, inputs, block_, [&](std::size_t i) {
    spec.layer = i;
    if (read) read->spec.layer = i;
    return
        [block = block_->ptr<T5Block>(i), tokens, spec, read](const std::vector<at::Tensor>& from) {
          AttentionSpec biased = spec;
          biased.mask.values = from[1];
          if (!read) return block->forward(from[0], tokens, biased, nullptr);
          EncodedText text = *read;
          if (text.hidden.defined()) text.hidden = from[2];
          return block->forward(from[0], tokens, biased, &text);
        };
  });
  computed.hidden = dropped(final_layer_norm_(computed.hidden));
  computed.keep_hidden(inputs);
}

// Both sides, without a head.
class T5Model : public T5Weights<Seq2SeqModel> {
 public:
  explicit T5Model(const PretrainedConfig& config) : T5Model("T5Model", config) { post_init(); }
  void tie_weights() override {
    encoder_->share_embeddings(shared_);
    decoder_->share_embeddings(shared_);
  }
  [[nodiscard]] bool ties_embeddings() const override { return true; }
  [[nodiscard]] torch::nn::Embedding input_embeddings() override { return shared_; }
  [[nodiscard]] std::int64_t max_positions() const override {
    return std::numeric_limits<std::int64_t>::max();
  }
  [[nodiscard]] ParallelPlan parallel_plan() const override;

 protected:
  T5Model(const char* class_name, const PretrainedConfig& config)
      : T5Weights(class_name, config, "transformer"), values_(read_t5(config)) {
    shared_ = register_module("shared", torch::nn::Embedding(values_.vocab_size, values_.d_model));
    encoder_ = register_module("encoder", std::make_shared<T5Stack>(config, values_, false));
    decoder_ = register_module("decoder", std::make_shared<T5Stack>(config, values_, true));
  }
  [[nodiscard]] BaseTextModel& encoder() override { return *encoder_; }
  void decode(Computed& computed, const TextInputs& inputs, const EncodedText& text) override {
    decoder_->run(computed, inputs, &text);
  }
  [[nodiscard]] DecoderTokens usual_tokens() const override { return {.padding = 0}; }
  [[nodiscard]] const T5Config& values() const { return values_; }

 private:
  T5Config values_;
  torch::nn::Embedding shared_ = nullptr;
  std::shared_ptr<T5Stack> encoder_, decoder_;
};

ParallelPlan T5Model::parallel_plan() const {
  using enum ParallelPlan::Cut;
  // The bias of distances has a number for each head, which a cut of heads would have to divide.
  ParallelPlan plan{.pipeline = {{"shared", "encoder.embed_tokens", "decoder.embed_tokens"},
                                 {"encoder.block.*"},
                                 {"encoder.final_layer_norm"},
                                 {"decoder.block.*"},
                                 {"decoder.final_layer_norm"}}};
  for (const std::string dense :
       {"encoder.block.*.layer.1.DenseReluDense.", "decoder.block.*.layer.2.DenseReluDense."}) {
    if (!values_.is_gated) plan.tensor_parallel.push_back({dense + "wi", colwise});
    if (values_.is_gated) plan.tensor_parallel.push_back({dense + "wi_0", colwise});
    if (values_.is_gated) plan.tensor_parallel.push_back({dense + "wi_1", colwise});
    plan.tensor_parallel.push_back({dense + "wo", rowwise});
  }
  return plan;
}

class T5ForConditionalGeneration final : public T5Model, public Seq2SeqLM {
 public:
  explicit T5ForConditionalGeneration(const PretrainedConfig& config)
      : T5Model("T5ForConditionalGeneration", config),
        lm_head_(values().d_model, values().vocab_size, /*has_bias=*/false) {
    register_module("lm_head", lm_head_);
    post_init();
  }
  void tie_weights() override {
    T5Model::tie_weights();
    if (ties_head_) lm_head_->tie_weight(input_embeddings()->weight);
  }
  void untie_as(const WeightReader& weights) override;
  [[nodiscard]] Linear output_embeddings() override { return lm_head_; }
  [[nodiscard]] Seq2SeqModel& sides() override { return *this; }
  [[nodiscard]] ParallelPlan parallel_plan() const override {
    ParallelPlan plan = T5Model::parallel_plan();
    plan.tensor_parallel.push_back({"lm_head", ParallelPlan::Cut::colwise_gather_output});
    plan.pipeline.push_back({"lm_head"});
    return plan;
  }

 protected:
  [[nodiscard]] ModelOutput output_of(const TextInputs& inputs) override {
    const double scale =
        values().scales_outputs ? 1 / std::sqrt(static_cast<double>(values().d_model)) : 1;
    return lm_output(inputs, [&](const at::Tensor& hidden) {
      return lm_head_(scale == 1 ? hidden : hidden * scale);
    });
  }

 private:
  bool ties_head_ = true;
  Linear lm_head_;
};

void T5ForConditionalGeneration::untie_as(const WeightReader& weights) {
  const auto has = [&](const char* name) {
    return std::ranges::count(weights.outlines, name, &NamedTensor::name) > 0;
  };
  if (!has("lm_head.weight")) return;
  for (const char* name : {"shared.weight", "encoder.embed_tokens.weight"}) {
    if (!has(name)) continue;
    const at::Tensor words = weights.read(name), scores = weights.read("lm_head.weight");
    ties_head_ = words.sizes() != scores.sizes() || words.equal(scores);
    break;
  }
  if (!ties_head_) lm_head_->tie_weight(at::empty_like(lm_head_->weight).requires_grad_());
}

}  // namespace

Architecture t5() {
  using enum Task;
  return {.model_type = "t5",
          .classes = {{base,
                       [](const PretrainedConfig& config) {
                         return std::make_shared<T5Model>(config);
                       }},
                      {seq2seq_lm,
                       [](const PretrainedConfig& config) {
                         return std::make_shared<T5ForConditionalGeneration>(config);
                       }}},
          .keys = keys_of<T5Config>(),
          .size_keys = {.width = "d_model", .inner = "d_ff", .layers = "num_layers"},
          .aliases = {{"hidden_size", "d_model"},
                      {"num_attention_heads", "num_heads"},
                      {"num_hidden_layers", "num_layers"},
                      {"head_dim", "d_kv"}}};
}

}  // namespace accelerate::detail
