// ModernBERT: an encoder with rotary positions, most of whose layers see only tokens that are near.
// Modules have the names that they have in Transformers. Source: Warner et al. 2024;
// `modeling_modernbert.py` of Transformers.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/normalization.h>

#include <cmath>
#include <map>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/transformers/models/architectures/heads.h"
#include "accelerate/transformers/models/layers/dropout.h"
#include "accelerate/transformers/models/layers/rotary.h"
#include "accelerate/transformers/models/losses.h"

namespace accelerate::detail {
namespace {

constexpr const char *kGlobal = "full_attention", *kLocal = "sliding_attention";

// The keys of config.json, with Transformers' defaults.
struct ModernBertConfig {
  std::int64_t vocab_size = 50368;
  std::int64_t hidden_size = 768;
  std::int64_t intermediate_size = 1152;
  std::int64_t num_hidden_layers = 22;
  std::int64_t num_attention_heads = 12;
  std::string hidden_activation = "gelu";
  std::int64_t max_position_embeddings = 8192;  // Only for rotary scalings that ask for it.
  double initializer_range = 0.02;
  double initializer_cutoff_factor = 2;  // New weights lie within so many deviations.
  double norm_eps = 1e-5;
  bool norm_bias = false;
  std::optional<std::int64_t> pad_token_id = 50283;
  bool attention_bias = false;
  double attention_dropout = 0;
  std::vector<std::string> layer_types = {};
  std::int64_t global_attn_every_n_layers = 3;  // Without layer_types.
  std::int64_t local_attention = 128;           // The tokens that are near, on both sides together.
  double embedding_dropout = 0;
  bool mlp_bias = false;
  double mlp_dropout = 0;
  bool decoder_bias = true;
  std::string classifier_pooling = "cls";
  double classifier_dropout = 0;
  bool classifier_bias = false;
  std::string classifier_activation = "gelu";
  bool sparse_prediction = false;  // With labels, only labelled tokens get logits.
  std::int64_t sparse_pred_ignore_index = kIgnoredLabel;
  bool tie_word_embeddings = true;

  template <typename Self, typename Visit>
  static void visit(Self& self, const Visit& visit) {
    visit("vocab_size", self.vocab_size, limits::kWords);
    visit("hidden_size", self.hidden_size, limits::kWidth);
    visit("intermediate_size", self.intermediate_size, limits::kInner);
    visit("num_hidden_layers", self.num_hidden_layers, limits::kLayers);
    visit("num_attention_heads", self.num_attention_heads, limits::kHeads);
    visit("hidden_activation", self.hidden_activation);
    visit("max_position_embeddings", self.max_position_embeddings, limits::kTokens);
    visit("initializer_range", self.initializer_range, limits::kDeviation);
    visit("initializer_cutoff_factor", self.initializer_cutoff_factor, limits::kDivisor);
    visit("norm_eps", self.norm_eps, limits::kEpsilon);
    visit("norm_bias", self.norm_bias);
    visit("pad_token_id", self.pad_token_id, limits::kTokenId);
    visit("attention_bias", self.attention_bias);
    visit("attention_dropout", self.attention_dropout, limits::kShare);
    visit("layer_types", self.layer_types);
    visit("global_attn_every_n_layers", self.global_attn_every_n_layers, limits::kInterval);
    visit("local_attention", self.local_attention, limits::kIndex);
    visit("embedding_dropout", self.embedding_dropout, limits::kShare);
    visit("mlp_bias", self.mlp_bias);
    visit("mlp_dropout", self.mlp_dropout, limits::kShare);
    visit("decoder_bias", self.decoder_bias);
    visit("classifier_pooling", self.classifier_pooling);
    visit("classifier_dropout", self.classifier_dropout, limits::kShare);
    visit("classifier_bias", self.classifier_bias);
    visit("classifier_activation", self.classifier_activation);
    visit("sparse_prediction", self.sparse_prediction);
    visit("sparse_pred_ignore_index", self.sparse_pred_ignore_index, limits::kTokenId);
    visit("tie_word_embeddings", self.tie_word_embeddings);
  }
};

ModernBertConfig read_modernbert(const PretrainedConfig& config) {
  check_common_keys(config);
  auto values = read_config<ModernBertConfig>(config);
  check_activation(config, "hidden_activation");
  check_activation(config, "classifier_activation");
  check_heads(config, {"num_attention_heads", values.num_attention_heads, "hidden_size",
                       values.hidden_size});
  if (values.hidden_size / values.num_attention_heads % 2 != 0) {
    throw ConfigError(config.name() + ": 'hidden_size' divided by 'num_attention_heads' is " +
                      std::to_string(values.hidden_size / values.num_attention_heads) +
                      "; allowed is an even number, as pairs are rotated");
  }
  check_padding_row(config, values.pad_token_id, "vocab_size", values.vocab_size);
  if (values.classifier_pooling != "cls" && values.classifier_pooling != "mean")
    config.refuse("classifier_pooling", "cls or mean");
  auto& types = values.layer_types;
  const bool has_types = config.json_of("layer_types") != "null";
  for (std::int64_t i = 0; !has_types && i < values.num_hidden_layers; ++i)
    types.emplace_back(i % values.global_attn_every_n_layers == 0 ? kGlobal : kLocal);
  check_layer_types(config, types, values.num_hidden_layers);
  return values;
}

// Returns the rotation of the layers of a type, which has an entry of its own in rope_parameters.
Rotary rotary_of(const PretrainedConfig& config, const ModernBertConfig& values, const char* type) {
  const bool is_global = type == kGlobal;
  const char* const older_key = is_global ? "global_rope_theta" : "local_rope_theta";
  constexpr Range<double> kTheta{1, 1e15};
  Rotary::Model model{.head_dim = values.hidden_size / values.num_attention_heads,
                      .max_positions = values.max_position_embeddings,
                      .layer_types = {type},
                      .default_theta = is_global ? 160000.0 : 10000.0};
  if (config.contains(older_key)) model.default_theta = value_in(config, older_key, kTheta);
  const auto given = config.section("rope_parameters");
  if (given) {
    for (const std::string& key : given->keys()) {
      if (key != kGlobal && key != kLocal)
        given->refuse(key, std::string("objects for ") + kGlobal + " and " + kLocal + " alone");
    }
    if (given->json_of(type) == "null") return {PretrainedConfig(), model};
  }
  return {config, model};
}

// A norm whose bias may be missing.
torch::nn::LayerNorm modernbert_norm(const ModernBertConfig& config) {
  struct WithoutBias final : torch::nn::LayerNormImpl {
    explicit WithoutBias(const torch::nn::LayerNormOptions& options) : LayerNormImpl(options) {
      parameters_.erase("bias");
      bias = at::Tensor();
    }
  };
  const auto options = torch::nn::LayerNormOptions({config.hidden_size}).eps(config.norm_eps);
  if (config.norm_bias) return torch::nn::LayerNorm(options);
  return {std::shared_ptr<torch::nn::LayerNormImpl>(std::make_shared<WithoutBias>(options))};
}

// Attention and a gated feed-forward network, each of the normed input and added to it.
class ModernBertLayer final : public torch::nn::Module {
 public:
  ModernBertLayer(const ModernBertConfig& config, std::size_t index)
      : torch::nn::Module("ModernBertEncoderLayer"),
        heads_(config.num_attention_heads),
        attention_dropout_(config.attention_dropout),
        mlp_dropout_(config.mlp_dropout),
        activation_(activation_of(config.hidden_activation)),
        wqkv_(config.hidden_size, 3 * config.hidden_size, config.attention_bias),
        attention_wo_(config.hidden_size, config.hidden_size, config.attention_bias),
        wi_(config.hidden_size, 2 * config.intermediate_size, config.mlp_bias),
        mlp_wo_(config.intermediate_size, config.hidden_size, config.mlp_bias),
        mlp_norm_(modernbert_norm(config)) {
    // The embeddings are normed already.
    if (index > 0) attention_norm_ = register_module("attn_norm", modernbert_norm(config));
    auto& attention = part(*this, "attn", "ModernBertAttention");
    attention.register_module("Wqkv", wqkv_);
    attention.register_module("Wo", attention_wo_);
    register_module("mlp_norm", mlp_norm_);
    auto& mlp = part(*this, "mlp", "ModernBertMLP");
    mlp.register_module("Wi", wi_);
    mlp.register_module("Wo", mlp_wo_);
  }

  // hidden: {…, H}. Returns the same shape, or {B, H} if spec.first_alone.
  at::Tensor forward(const at::Tensor& hidden, const Tokens& tokens, const Rotary::Angles& angles,
                     AttentionSpec spec) {
    spec.dropout = is_training() ? attention_dropout_ : 0;
    // Rotated in fp32, whatever the type of the heads.
    const auto rotated = [&](const at::Tensor& heads) {
      return rotate(heads.to(at::kFloat), angles).to(heads.scalar_type());
    };
    const at::Tensor read = attention_norm_.is_empty() ? hidden : attention_norm_(hidden);
    const auto heads = wqkv_(read).unflatten(-1, {3, heads_, -1}).unbind(-3);
    const at::Tensor query = rotated(heads[0]), key = rotated(heads[1]);
    const at::Tensor context =
        attention(spec.first_alone ? tokens.first(query) : query, key, heads[2], tokens, spec);
    const at::Tensor attended =
        (spec.first_alone ? tokens.first(hidden) : hidden) +
        dropout_of(attention_wo_(context), attention_dropout_, is_training());
    const auto halves = wi_(mlp_norm_(attended)).chunk(2, -1);
    return attended +
           mlp_wo_(dropout_of(activation_(halves[0]) * halves[1], mlp_dropout_, is_training()));
  }

 private:
  std::int64_t heads_;
  double attention_dropout_, mlp_dropout_;
  Activation activation_;
  Linear wqkv_, attention_wo_, wi_, mlp_wo_;
  torch::nn::LayerNorm attention_norm_ = nullptr, mlp_norm_;
};

// The encoder alone. token_type_ids are not read, as in Python.
class ModernBertModel final : public EncoderModel {
 public:
  explicit ModernBertModel(const PretrainedConfig& config)
      : EncoderModel("ModernBertModel", config, "model"),
        values_(read_modernbert(config)),
        words_(torch::nn::EmbeddingOptions(values_.vocab_size, values_.hidden_size)
                   .padding_idx(values_.pad_token_id)),
        norm_(modernbert_norm(values_)),
        final_norm_(modernbert_norm(values_)) {
    for (const char* type : {kGlobal, kLocal}) {
      if (std::ranges::find(values_.layer_types, type) != values_.layer_types.end())
        rotaries_.emplace(type, rotary_of(config, values_, type));
    }
    auto& embeddings = part(*this, "embeddings", "ModernBertEmbeddings");
    embeddings.register_module("tok_embeddings", words_);
    embeddings.register_module("norm", norm_);
    for (std::size_t i = 0; i < values_.layer_types.size(); ++i)
      layers_->push_back(std::make_shared<ModernBertLayer>(values_, i));
    register_module("layers", layers_);
    register_module("final_norm", final_norm_);
    post_init();
  }
  [[nodiscard]] const ModernBertConfig& values() const { return values_; }
  [[nodiscard]] bool ties_embeddings() const override { return values_.tie_word_embeddings; }
  [[nodiscard]] torch::nn::Embedding input_embeddings() override { return words_; }
  [[nodiscard]] std::vector<std::string> no_split_modules() const override {
    return {"ModernBertEmbeddings", "ModernBertEncoderLayer"};
  }
  [[nodiscard]] std::vector<PythonBuffer> python_buffers() const override {
    std::vector<PythonBuffer> buffers;
    const std::int64_t pairs = values_.hidden_size / values_.num_attention_heads / 2;
    for (const auto& [type, rotary] : rotaries_) {
      buffers.push_back({"rotary_emb." + type + "_inv_freq", at::kFloat, pairs});
      buffers.push_back({"rotary_emb." + type + "_original_inv_freq", at::kFloat, pairs});
    }
    return buffers;
  }
  [[nodiscard]] ParallelPlan parallel_plan() const override {
    using enum ParallelPlan::Cut;
    return {.tensor_parallel = {{"layers.*.attn.Wqkv", colwise, /*parts=*/3},
                                {"layers.*.attn.Wo", rowwise},
                                {"layers.*.mlp.Wi", colwise, /*parts=*/2},
                                {"layers.*.mlp.Wo", rowwise}},
            .pipeline = {{"embeddings"}, {"layers.*"}, {"final_norm"}}};
  }

 protected:
  [[nodiscard]] at::Tensor embedded(const TextInputs& inputs, const Tokens& tokens) override {
    return dropout_of(norm_(words_of(inputs, tokens)), values_.embedding_dropout, is_training());
  }
  [[nodiscard]] Run run_of(const Computed& computed, const TextInputs& inputs) override;
  [[nodiscard]] at::Tensor finished(const at::Tensor& hidden) override {
    return final_norm_(hidden);
  }
  void init_weights(torch::nn::Module& module, WeightInitialiser& initialiser) override;

 private:
  ModernBertConfig values_;
  std::map<std::string, Rotary> rotaries_;  // By type of layer.
  torch::nn::Embedding words_;
  torch::nn::LayerNorm norm_, final_norm_;
};

EncoderModel::Run ModernBertModel::run_of(const Computed& computed, const TextInputs& inputs) {
  // What layers of a type share.
  struct Shared {
    Rotary::Angles angles;
    AttentionMask mask;
  };
  const Tokens& tokens = computed.tokens;
  const at::Tensor all = positions_of(inputs), positions = take_positions(all, inputs, tokens);
  std::map<std::string, Shared> shared;
  for (const auto& [type, rotary] : rotaries_) {
    const auto angles = rotary.angles(positions, all, computed.hidden.scalar_type());
    shared[type] = {{angles.cos.to(at::kFloat), angles.sin.to(at::kFloat)},
                    type == kGlobal ? AttentionMask{.values = tokens.mask()}
                                    : local_mask(tokens, values_.local_attention / 2,
                                                 computed.hidden.device())};
  }
  return [layers = layers_, types = values_.layer_types, tokens, shared](
             std::size_t i, const at::Tensor& hidden, AttentionSpec spec) {
    const Shared& own = shared.at(types[i]);
    spec.mask = own.mask;
    return layers->ptr<ModernBertLayer>(i)->forward(hidden, tokens, own.angles, spec);
  };
}

// Also for heads, whose layers have names of their own.
void ModernBertModel::init_weights(torch::nn::Module& module, WeightInitialiser& initialiser) {
  EncoderModel::init_weights(module, initialiser);
  const double in = values_.initializer_range,
               out = in / std::sqrt(2.0 * static_cast<double>(values_.num_hidden_layers)),
               last = 1 / std::sqrt(static_cast<double>(values_.hidden_size));
  const std::map<std::string, double> deviations{
      {"tok_embeddings", in}, {"Wqkv", in},     {"Wi", in},          {"Wo", out},
      {"dense", out},         {"decoder", out}, {"classifier", last}};
  for (const auto& child : module.named_children()) {
    const auto deviation = deviations.find(child.key());
    if (deviation == deviations.end()) continue;
    initialiser.truncated_normal_again(child.value()->named_parameters(false)["weight"],
                                       deviation->second, values_.initializer_cutoff_factor);
  }
}

// --- Heads ---

class ModernBertPredictionHead final : public HeadTransform {
 public:
  explicit ModernBertPredictionHead(const ModernBertConfig& config)
      : HeadTransform("ModernBertPredictionHead"),
        activation_(activation_of(config.classifier_activation)),
        dense_(config.hidden_size, config.hidden_size, config.classifier_bias),
        norm_(modernbert_norm(config)) {
    register_module("dense", dense_);
    register_module("norm", norm_);
  }
  at::Tensor forward(const at::Tensor& hidden) override {
    return norm_(activation_(dense_(hidden)));
  }

 private:
  Activation activation_;
  Linear dense_;
  torch::nn::LayerNorm norm_;
};

BelowHead below_head(const std::string& head, const std::shared_ptr<ModernBertModel>& model) {
  return {.class_name = "ModernBert" + head,
          .base = model,
          .prefix = "model",
          .transform = std::make_shared<ModernBertPredictionHead>(model->values())};
}

// Classifies a row by its first token, or by the mean of its tokens.
class ModernBertRowHead final : public FirstTokenHead {
 public:
  ModernBertRowHead(const std::shared_ptr<ModernBertModel>& model, const char* head, Task task)
      : FirstTokenHead(below_head(head, model), task),
        values_(model->values()),
        skips_padding_(task == Task::multiple_choice),
        classifier_(model->hidden_size(), scores()) {
    register_module("classifier", classifier_);
    post_init();
  }

 protected:
  [[nodiscard]] bool reads_first_token() const override {
    return values_.classifier_pooling == "cls" && !skips_padding_;
  }
  [[nodiscard]] at::Tensor pooled(const Computed& computed, const TextInputs& inputs) override;
  at::Tensor scores_of(const at::Tensor& row) override {
    return classifier_(dropout_of(transformed(row), values_.classifier_dropout, is_training()));
  }

 private:
  const ModernBertConfig& values_;
  bool skips_padding_;  // Reads the first token that is not padding.
  Linear classifier_;
};

at::Tensor ModernBertRowHead::pooled(const Computed& computed, const TextInputs& inputs) {
  at::Tensor mask = inputs.attention_mask;
  const bool has_padding = mask.defined() && mask.dim() == 2;
  if (values_.classifier_pooling == "cls") {
    if (reads_first_token() || !has_padding || computed.tokens.is_packed()) return computed.first();
    const at::Tensor row = at::arange(mask.size(0), mask.options().dtype(at::kLong));
    return computed.hidden.flatten(0, 1).index_select(
        0, (row * mask.size(1) + mask.to(at::kInt).argmax(-1)).to(computed.hidden.device()));
  }
  if (mask.defined() && !has_padding) {
    throw UsageError("'classifier_pooling' is mean, and the attention mask has " +
                     std::to_string(mask.dim()) +
                     " dimensions; allowed are two, which say what tokens there are");
  }
  const at::Tensor hidden = computed.tokens.restore(computed.hidden);
  if (!has_padding) return hidden.mean(1);
  mask = mask.to(hidden.device());
  return (hidden * mask.unsqueeze(-1)).sum(1) / mask.sum(1, /*keepdim=*/true);
}

class ModernBertForMaskedLM final : public MaskedLM {
 public:
  explicit ModernBertForMaskedLM(const std::shared_ptr<ModernBertModel>& model)
      : MaskedLM(below_head("ForMaskedLM", model), model->values().decoder_bias),
        values_(model->values()) {
    register_module("decoder", decoder);
    post_init();
  }

 protected:
  [[nodiscard]] ModelOutput output_of(const TextInputs& inputs) override;
  [[nodiscard]] bool has_loss_in_fp32() const override { return true; }

 private:
  const ModernBertConfig& values_;
};

ModelOutput ModernBertForMaskedLM::output_of(const TextInputs& inputs) {
  if (!values_.sparse_prediction || !inputs.labels.defined()) return MaskedLM::output_of(inputs);
  // logits: {labelled tokens, V}. Another number than the usual one counts at padding too.
  const bool all_tokens = values_.sparse_pred_ignore_index != kIgnoredLabel;
  const auto computed =
      base().compute(inputs, {.all_tokens = all_tokens, .token_labels = inputs.labels});
  const at::Tensor labels = computed.tokens.take(inputs.labels).flatten();
  const at::Tensor kept = labels.ne(values_.sparse_pred_ignore_index).nonzero().squeeze(1);
  ModelOutput output = computed.output();
  output.logits = scores_of(computed.hidden.flatten(0, -2).index_select(0, kept));
  output.loss = cross_entropy(in_fp32(output.logits), labels.index_select(0, kept),
                              inputs.num_items_in_batch);
  return output;
}

std::shared_ptr<ModernBertModel> make_modernbert(const PretrainedConfig& config) {
  return std::make_shared<ModernBertModel>(config);
}

std::shared_ptr<PreTrainedModel> modernbert_for_tokens(const PretrainedConfig& config) {
  const auto model = make_modernbert(config);
  return std::make_shared<TokenClassification>(below_head("ForTokenClassification", model),
                                               "classifier", model->values().classifier_dropout);
}

std::shared_ptr<PreTrainedModel> modernbert_for_answers(const PretrainedConfig& config) {
  const auto model = make_modernbert(config);
  check_two_labels(config);
  return std::make_shared<QuestionAnswering>(below_head("ForQuestionAnswering", model),
                                             model->values().classifier_dropout, "classifier");
}

}  // namespace

Architecture modernbert() {
  using enum Task;
  return {.model_type = "modernbert",
          .classes = {{base, make_modernbert},
                      {sequence_classification,
                       with_head<ModernBertRowHead>(make_modernbert, "ForSequenceClassification",
                                                    sequence_classification)},
                      {multiple_choice, with_head<ModernBertRowHead>(
                                            make_modernbert, "ForMultipleChoice", multiple_choice)},
                      {masked_lm, with_head<ModernBertForMaskedLM>(make_modernbert)},
                      {token_classification, modernbert_for_tokens},
                      {question_answering, modernbert_for_answers}},
          .keys = keys_of<ModernBertConfig>()};
}

}  // namespace accelerate::detail
