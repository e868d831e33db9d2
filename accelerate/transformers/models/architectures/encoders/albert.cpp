// ALBERT: BERT's layers, whose weights several layers share, behind embeddings of another size.
// Modules have the names that they have in Transformers. Source: Lan et al. 2020;
// `modeling_albert.py` of Transformers.
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros_like.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/normalization.h>

#include <utility>

#include "accelerate/transformers/models/architectures/heads.h"
#include "accelerate/transformers/models/layers/dropout.h"
#include "accelerate/transformers/models/layers/norm_of_sum.h"

namespace accelerate::detail {
namespace {

// The keys of config.json, with Transformers' defaults.
struct AlbertConfig {
  std::int64_t vocab_size = 30000;
  std::int64_t embedding_size = 128;
  std::int64_t hidden_size = 4096;
  std::int64_t num_hidden_layers = 12;
  std::int64_t num_hidden_groups = 1;  // Neighbouring layers of a group share their weights.
  std::int64_t num_attention_heads = 64;
  std::int64_t intermediate_size = 16384;
  std::int64_t inner_group_num = 1;  // What counts as one layer is so many in a row.
  std::string hidden_act = "gelu_new";
  double hidden_dropout_prob = 0;
  double attention_probs_dropout_prob = 0;
  std::int64_t max_position_embeddings = 512;
  std::int64_t type_vocab_size = 2;
  double initializer_range = 0.02;
  double layer_norm_eps = 1e-12;
  double classifier_dropout_prob = 0.1;
  std::optional<std::int64_t> pad_token_id = 0;
  bool tie_word_embeddings = true;

  template <typename Self, typename Visit>
  static void visit(Self& self, const Visit& visit) {
    visit("vocab_size", self.vocab_size, limits::kWords);
    visit("embedding_size", self.embedding_size, limits::kWidth);
    visit("hidden_size", self.hidden_size, limits::kWidth);
    visit("num_hidden_layers", self.num_hidden_layers, limits::kLayers);
    visit("num_hidden_groups", self.num_hidden_groups, limits::kInterval);
    visit("num_attention_heads", self.num_attention_heads, limits::kHeads);
    visit("intermediate_size", self.intermediate_size, limits::kInner);
    visit("inner_group_num", self.inner_group_num, limits::kInterval);
    visit("hidden_act", self.hidden_act);
    visit("hidden_dropout_prob", self.hidden_dropout_prob, limits::kShare);
    visit("attention_probs_dropout_prob", self.attention_probs_dropout_prob, limits::kShare);
    visit("max_position_embeddings", self.max_position_embeddings, limits::kWords);
    visit("type_vocab_size", self.type_vocab_size, limits::kWords);
    visit("initializer_range", self.initializer_range, limits::kDeviation);
    visit("layer_norm_eps", self.layer_norm_eps, limits::kEpsilon);
    visit("classifier_dropout_prob", self.classifier_dropout_prob, limits::kShare);
    visit("pad_token_id", self.pad_token_id, limits::kTokenId);
    visit("tie_word_embeddings", self.tie_word_embeddings);
  }
};

AlbertConfig read_albert(const PretrainedConfig& config) {
  check_common_keys(config);
  const auto values = read_config<AlbertConfig>(config);
  check_activation(config, "hidden_act");
  check_heads(config, {"num_attention_heads", values.num_attention_heads, "hidden_size",
                       values.hidden_size});
  check_padding_row(config, values.pad_token_id, "vocab_size", values.vocab_size);
  return values;
}

torch::nn::LayerNorm albert_norm(const AlbertConfig& config, std::int64_t size) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({size}).eps(config.layer_norm_eps));
}

// Attention and a feed-forward network, each added to its input and normed.
class AlbertLayer final : public EncoderLayer {
 public:
  explicit AlbertLayer(const AlbertConfig& config)
      : EncoderLayer("AlbertLayer"),
        heads_(config.num_attention_heads),
        dropout_(config.hidden_dropout_prob),
        attention_dropout_(config.attention_probs_dropout_prob),
        activation_(activation_of(config.hidden_act)),
        query_(config.hidden_size, config.hidden_size),
        key_(config.hidden_size, config.hidden_size),
        value_(config.hidden_size, config.hidden_size),
        dense_(config.hidden_size, config.hidden_size),
        ffn_(config.hidden_size, config.intermediate_size),
        ffn_output_(config.intermediate_size, config.hidden_size),
        attention_norm_(albert_norm(config, config.hidden_size)),
        norm_(albert_norm(config, config.hidden_size)) {
    register_module("full_layer_layer_norm", norm_);
    auto& attention = part(*this, "attention", "AlbertAttention");
    attention.register_module("query", query_);
    attention.register_module("key", key_);
    attention.register_module("value", value_);
    attention.register_module("dense", dense_);
    attention.register_module("LayerNorm", attention_norm_);
    register_module("ffn", ffn_);
    register_module("ffn_output", ffn_output_);
  }

  at::Tensor forward(const at::Tensor& hidden, const Tokens& tokens, AttentionSpec spec) override {
    const auto heads_of = [&](const at::Tensor& all) { return all.unflatten(-1, {heads_, -1}); };
    spec.dropout = is_training() ? attention_dropout_ : 0;
    const at::Tensor read = spec.first_alone ? tokens.first(hidden) : hidden;
    const at::Tensor context = attention(heads_of(query_(read)), heads_of(key_(hidden)),
                                         heads_of(value_(hidden)), tokens, spec);
    const at::Tensor attended =
        norm_of_sum(attention_norm_, dense_(context), read, is_training() ? dropout_ : 0);
    return norm_of_sum(norm_, ffn_output_(activation_(ffn_(attended))), attended, 0);
  }

 private:
  std::int64_t heads_;
  double dropout_, attention_dropout_;
  Activation activation_;
  Linear query_, key_, value_, dense_, ffn_, ffn_output_;
  torch::nn::LayerNorm attention_norm_, norm_;
};

// The encoder alone. Its output has last_hidden_state and, with a pooler, pooler_output.
class AlbertModel final : public EncoderModel {
 public:
  AlbertModel(const PretrainedConfig& config, bool pools);
  [[nodiscard]] const AlbertConfig& values() const { return values_; }
  [[nodiscard]] bool ties_embeddings() const override { return values_.tie_word_embeddings; }
  [[nodiscard]] torch::nn::Embedding input_embeddings() override { return words_; }
  [[nodiscard]] std::int64_t hidden_size() override { return values_.hidden_size; }
  [[nodiscard]] bool shares_layers() const override { return true; }
  [[nodiscard]] std::vector<std::string> no_split_modules() const override {
    return {"AlbertLayer"};
  }
  [[nodiscard]] std::vector<std::string> python_no_split_modules() const override { return {}; }
  [[nodiscard]] std::vector<PythonBuffer> python_buffers() const override {
    return {{"embeddings.position_ids", at::kLong, values_.max_position_embeddings},
            {"embeddings.token_type_ids", at::kLong, values_.max_position_embeddings}};
  }
  [[nodiscard]] ParallelPlan parallel_plan() const override;
  // tanh(W · first token + b): {B, H}.
  [[nodiscard]] at::Tensor pool(const at::Tensor& first) { return at::tanh(pooler_(first)); }

 protected:
  [[nodiscard]] ModelOutput output_of(const TextInputs& inputs) override;
  [[nodiscard]] at::Tensor embedded(const TextInputs& inputs, const Tokens& tokens) override;

 private:
  AlbertConfig values_;
  torch::nn::Embedding words_, positions_, types_;
  torch::nn::LayerNorm norm_;
  Linear projection_ = nullptr, pooler_ = nullptr;
};

AlbertModel::AlbertModel(const PretrainedConfig& config, bool pools)
    : EncoderModel("AlbertModel", config, "albert"),
      values_(read_albert(config)),
      words_(torch::nn::EmbeddingOptions(values_.vocab_size, values_.embedding_size)
                 .padding_idx(values_.pad_token_id)),
      positions_(values_.max_position_embeddings, values_.embedding_size),
      types_(values_.type_vocab_size, values_.embedding_size),
      norm_(albert_norm(values_, values_.embedding_size)) {
  auto& embeddings = part(*this, "embeddings", "AlbertEmbeddings");
  embeddings.register_module("word_embeddings", words_);
  embeddings.register_module("position_embeddings", positions_);
  embeddings.register_module("token_type_embeddings", types_);
  embeddings.register_module("LayerNorm", norm_);
  auto& encoder = part(*this, "encoder", "AlbertTransformer");
  projection_ = encoder.register_module("embedding_hidden_mapping_in",
                                        Linear(values_.embedding_size, values_.hidden_size));
  torch::nn::ModuleList groups;
  std::vector<torch::nn::ModuleList> layers_of_groups;
  for (std::int64_t group = 0; group < values_.num_hidden_groups; ++group) {
    torch::nn::ModuleList layers;
    for (std::int64_t i = 0; i < values_.inner_group_num; ++i)
      layers->push_back(std::make_shared<AlbertLayer>(values_));
    auto module = std::make_shared<torch::nn::Module>("AlbertLayerGroup");
    module->register_module("albert_layers", layers);
    groups->push_back(std::move(module));
    layers_of_groups.push_back(std::move(layers));
  }
  encoder.register_module("albert_layer_groups", groups);
  const double layers_a_group = static_cast<double>(values_.num_hidden_layers) /
                                static_cast<double>(values_.num_hidden_groups);
  for (std::int64_t i = 0; i < values_.num_hidden_layers; ++i) {
    const auto group = static_cast<std::size_t>(static_cast<double>(i) / layers_a_group);
    for (const auto& layer : *layers_of_groups.at(group)) layers_->push_back(layer);
  }
  if (pools) pooler_ = register_module("pooler", Linear(values_.hidden_size, values_.hidden_size));
  post_init();
}

ParallelPlan AlbertModel::parallel_plan() const {
  using enum ParallelPlan::Cut;
  const std::string layer = "encoder.albert_layer_groups.*.albert_layers.*.";
  ParallelPlan plan{.tensor_parallel = {{layer + "attention.query", colwise},
                                        {layer + "attention.key", colwise},
                                        {layer + "attention.value", colwise},
                                        {layer + "attention.dense", rowwise},
                                        {layer + "ffn", colwise},
                                        {layer + "ffn_output", rowwise}},
                    .pipeline = {{"embeddings", "encoder.embedding_hidden_mapping_in"},
                                 {"encoder.albert_layer_groups.*"}}};
  if (!pooler_.is_empty()) plan.pipeline.push_back({"pooler"});
  return plan;
}

at::Tensor AlbertModel::embedded(const TextInputs& inputs, const Tokens& tokens) {
  const at::Tensor positions = positions_of(inputs), words = words_of(inputs, tokens);
  check_positions(positions, inputs.input_ids.size(1) - 1, values_.max_position_embeddings, inputs);
  const at::Tensor types = token_types_of(inputs, values_.type_vocab_size);
  const at::Tensor sum =
      words + types_(tokens.take(types)) + positions_(take_positions(positions, inputs, tokens));
  return projection_(dropout_of(norm_(sum), values_.hidden_dropout_prob, is_training()));
}

ModelOutput AlbertModel::output_of(const TextInputs& inputs) {
  const auto computed = compute(inputs, {.first_token = !pooler_.is_empty()});
  ModelOutput output = computed.output();
  output.last_hidden_state = computed.tokens.restore(computed.hidden);
  if (!pooler_.is_empty()) output.pooler_output = pool(computed.first());
  return output;
}

// --- Heads ---

BelowHead below_head(const std::string& head, const std::shared_ptr<AlbertModel>& albert) {
  return {"Albert" + head, albert, "albert"};
}

class AlbertFirstTokenHead final : public FirstTokenHead {
 public:
  AlbertFirstTokenHead(const std::shared_ptr<AlbertModel>& albert, const char* head, Task task)
      : FirstTokenHead(below_head(head, albert), task),
        albert_(*albert),
        classifier_(albert->hidden_size(), scores()) {
    register_module("classifier", classifier_);
    post_init();
  }

 protected:
  at::Tensor scores_of(const at::Tensor& first) override {
    const double dropout = albert_.values().classifier_dropout_prob;
    return classifier_(dropout_of(albert_.pool(first), dropout, is_training()));
  }

 private:
  AlbertModel& albert_;
  Linear classifier_;
};

class AlbertForMaskedLM final : public MaskedLM {
 public:
  explicit AlbertForMaskedLM(const std::shared_ptr<AlbertModel>& albert)
      : MaskedLM(below_head("ForMaskedLM", albert), activation_of(albert->values().hidden_act),
                 albert->values().layer_norm_eps) {
    auto& predictions = part(*this, "predictions", "AlbertMLMHead");
    predictions.register_module("LayerNorm", norm);
    register_bias(predictions);
    predictions.register_module("dense", dense);
    predictions.register_module("decoder", decoder);
    post_init();
  }
};

std::shared_ptr<AlbertModel> pooling_albert(const PretrainedConfig& config) {
  return std::make_shared<AlbertModel>(config, /*pools=*/true);
}

std::shared_ptr<AlbertModel> bare_albert(const PretrainedConfig& config) {
  return std::make_shared<AlbertModel>(config, /*pools=*/false);
}

std::shared_ptr<PreTrainedModel> albert_for_tokens(const PretrainedConfig& config) {
  const auto albert = bare_albert(config);
  return std::make_shared<TokenClassification>(below_head("ForTokenClassification", albert),
                                               "classifier",
                                               albert->values().classifier_dropout_prob);
}

std::shared_ptr<PreTrainedModel> albert_for_answers(const PretrainedConfig& config) {
  const auto albert = bare_albert(config);
  check_two_labels(config);
  return std::make_shared<QuestionAnswering>(below_head("ForQuestionAnswering", albert));
}

}  // namespace

Architecture albert() {
  using enum Task;
  return {.model_type = "albert",
          .classes = {{base, pooling_albert},
                      {sequence_classification,
                       with_head<AlbertFirstTokenHead>(pooling_albert, "ForSequenceClassification",
                                                       sequence_classification)},
                      {multiple_choice, with_head<AlbertFirstTokenHead>(
                                            pooling_albert, "ForMultipleChoice", multiple_choice)},
                      {masked_lm, with_head<AlbertForMaskedLM>(bare_albert)},
                      {token_classification, albert_for_tokens},
                      {question_answering, albert_for_answers}},
          .keys = keys_of<AlbertConfig>()};
}

}  // namespace accelerate::detail
