// DistilBERT: half of BERT's layers, no types of tokens, no pooler. Modules have the names that
// they have in Transformers. Source: Sanh et al. 2019; `modeling_distilbert.py` of Transformers.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/relu.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/normalization.h>

#include <cmath>

#include "accelerate/transformers/models/architectures/heads.h"
#include "accelerate/transformers/models/layers/dropout.h"
#include "accelerate/transformers/models/layers/norm_of_sum.h"

namespace accelerate::detail {
namespace {

// The keys of config.json, with Transformers' defaults.
struct DistilBertConfig {
  std::int64_t vocab_size = 30522;
  std::int64_t max_position_embeddings = 512;
  bool sinusoidal_pos_embds = false;  // Initialises positions with sines.
  std::int64_t n_layers = 6;
  std::int64_t n_heads = 12;
  std::int64_t dim = 768;
  std::int64_t hidden_dim = 3072;
  double dropout = 0.1;
  double attention_dropout = 0.1;
  std::string activation = "gelu";
  double initializer_range = 0.02;
  double qa_dropout = 0.1;
  double seq_classif_dropout = 0.2;
  std::optional<std::int64_t> pad_token_id = 0;
  bool tie_word_embeddings = true;

  template <typename Self, typename Visit>
  static void visit(Self& self, const Visit& visit) {
    visit("vocab_size", self.vocab_size, limits::kWords);
    visit("max_position_embeddings", self.max_position_embeddings, limits::kWords);
    visit("sinusoidal_pos_embds", self.sinusoidal_pos_embds);
    visit("n_layers", self.n_layers, limits::kLayers);
    visit("n_heads", self.n_heads, limits::kHeads);
    visit("dim", self.dim, limits::kWidth);
    visit("hidden_dim", self.hidden_dim, limits::kInner);
    visit("dropout", self.dropout, limits::kShare);
    visit("attention_dropout", self.attention_dropout, limits::kShare);
    visit("activation", self.activation);
    visit("initializer_range", self.initializer_range, limits::kDeviation);
    visit("qa_dropout", self.qa_dropout, limits::kShare);
    visit("seq_classif_dropout", self.seq_classif_dropout, limits::kShare);
    visit("pad_token_id", self.pad_token_id, limits::kTokenId);
    visit("tie_word_embeddings", self.tie_word_embeddings);
  }
};

constexpr double kDistilBertEpsilon = 1e-12;

torch::nn::LayerNorm distilbert_norm(std::int64_t size) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({size}).eps(kDistilBertEpsilon));
}

DistilBertConfig read_distilbert(const PretrainedConfig& config) {
  check_common_keys(config);
  const auto values = read_config<DistilBertConfig>(config);
  check_activation(config, "activation");
  check_heads(config, {"n_heads", values.n_heads, "dim", values.dim});
  check_padding_row(config, values.pad_token_id, "vocab_size", values.vocab_size);
  return values;
}

// {positions, dim}: sines in even columns, cosines in odd ones.
at::Tensor sinusoids(std::int64_t positions, std::int64_t dim) {
  // On the CPU even where the model is made without memory.
  at::Tensor table = at::empty({positions, dim}, at::TensorOptions(at::kFloat).device(at::kCPU));
  auto* values = table.mutable_data_ptr<float>();
  for (std::int64_t position = 0; position < positions; ++position) {
    for (std::int64_t i = 0; i < dim; ++i) {
      const double angle =
          static_cast<double>(position) /
          std::pow(10000.0, 2.0 * static_cast<double>(i / 2) / static_cast<double>(dim));
      *values++ = static_cast<float>(i % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  }
  return table;
}

// Attention and a feed-forward network, each added to its input and normed.
class DistilBertLayer final : public EncoderLayer {
 public:
  explicit DistilBertLayer(const DistilBertConfig& config)
      : EncoderLayer("TransformerBlock"),
        heads_(config.n_heads),
        dropout_(config.dropout),
        attention_dropout_(config.attention_dropout),
        activation_(activation_of(config.activation)),
        query_(config.dim, config.dim),
        key_(config.dim, config.dim),
        value_(config.dim, config.dim),
        attention_output_(config.dim, config.dim),
        intermediate_(config.dim, config.hidden_dim),
        output_(config.hidden_dim, config.dim),
        attention_norm_(distilbert_norm(config.dim)),
        output_norm_(distilbert_norm(config.dim)) {
    auto& attention = part(*this, "attention", "DistilBertSelfAttention");
    attention.register_module("q_lin", query_);
    attention.register_module("k_lin", key_);
    attention.register_module("v_lin", value_);
    attention.register_module("out_lin", attention_output_);
    register_module("sa_layer_norm", attention_norm_);
    auto& ffn = part(*this, "ffn", "FFN");
    ffn.register_module("lin1", intermediate_);
    ffn.register_module("lin2", output_);
    register_module("output_layer_norm", output_norm_);
  }

  at::Tensor forward(const at::Tensor& hidden, const Tokens& tokens, AttentionSpec spec) override {
    const auto heads_of = [&](const at::Tensor& all) { return all.unflatten(-1, {heads_, -1}); };
    spec.dropout = is_training() ? attention_dropout_ : 0;
    const at::Tensor read = spec.first_alone ? tokens.first(hidden) : hidden;
    const at::Tensor context = attention(heads_of(query_(read)), heads_of(key_(hidden)),
                                         heads_of(value_(hidden)), tokens, spec);
    const at::Tensor attended = norm_of_sum(attention_norm_, attention_output_(context), read, 0);
    const at::Tensor fed = output_(activation_(intermediate_(attended)));
    return norm_of_sum(output_norm_, fed, attended, is_training() ? dropout_ : 0);
  }

 private:
  std::int64_t heads_;
  double dropout_, attention_dropout_;
  Activation activation_;
  Linear query_, key_, value_, attention_output_, intermediate_, output_;
  torch::nn::LayerNorm attention_norm_, output_norm_;
};

// The encoder alone. token_type_ids are not read, as in Python.
class DistilBertModel final : public EncoderModel {
 public:
  explicit DistilBertModel(const PretrainedConfig& config)
      : EncoderModel("DistilBertModel", config, "distilbert"),
        values_(read_distilbert(config)),
        words_(torch::nn::EmbeddingOptions(values_.vocab_size, values_.dim)
                   .padding_idx(values_.pad_token_id)),
        positions_(values_.max_position_embeddings, values_.dim),
        norm_(distilbert_norm(values_.dim)) {
    auto& embeddings = part(*this, "embeddings", "Embeddings");
    embeddings.register_module("word_embeddings", words_);
    embeddings.register_module("position_embeddings", positions_);
    embeddings.register_module("LayerNorm", norm_);
    for (std::int64_t i = 0; i < values_.n_layers; ++i)
      layers_->push_back(std::make_shared<DistilBertLayer>(values_));
    part(*this, "transformer", "Transformer").register_module("layer", layers_);
    post_init();
  }
  [[nodiscard]] const DistilBertConfig& values() const { return values_; }
  [[nodiscard]] bool ties_embeddings() const override { return values_.tie_word_embeddings; }
  [[nodiscard]] torch::nn::Embedding input_embeddings() override { return words_; }
  [[nodiscard]] std::vector<std::string> no_split_modules() const override {
    return {"TransformerBlock"};
  }
  [[nodiscard]] std::vector<std::string> python_no_split_modules() const override { return {}; }
  [[nodiscard]] std::vector<PythonBuffer> python_buffers() const override {
    return {{"embeddings.position_ids", at::kLong, values_.max_position_embeddings}};
  }
  [[nodiscard]] ParallelPlan parallel_plan() const override {
    using enum ParallelPlan::Cut;
    return {.tensor_parallel = {{"transformer.layer.*.attention.q_lin", colwise},
                                {"transformer.layer.*.attention.k_lin", colwise},
                                {"transformer.layer.*.attention.v_lin", colwise},
                                {"transformer.layer.*.attention.out_lin", rowwise},
                                {"transformer.layer.*.ffn.lin1", colwise},
                                {"transformer.layer.*.ffn.lin2", rowwise}},
            .pipeline = {{"embeddings"}, {"transformer.layer.*"}}};
  }

 protected:
  [[nodiscard]] at::Tensor embedded(const TextInputs& inputs, const Tokens& tokens) override {
    const at::Tensor positions = positions_of(inputs), words = words_of(inputs, tokens);
    check_positions(positions, inputs.input_ids.size(1) - 1, values_.max_position_embeddings,
                    inputs);
    const at::Tensor sum = words + positions_(take_positions(positions, inputs, tokens));
    return dropout_of(norm_(sum), values_.dropout, is_training());
  }
  void init_weights(torch::nn::Module& module, WeightInitialiser& initialiser) override {
    EncoderModel::init_weights(module, initialiser);
    if (module.name() != "Embeddings" || !values_.sinusoidal_pos_embds) return;
    initialiser.copy(positions_->weight, sinusoids(values_.max_position_embeddings, values_.dim));
  }

 private:
  DistilBertConfig values_;
  torch::nn::Embedding words_, positions_;
  torch::nn::LayerNorm norm_;
};

// --- Heads ---

BelowHead below_head(const char* head, const std::shared_ptr<DistilBertModel>& distilbert) {
  return {std::string("DistilBert") + head, distilbert, "distilbert"};
}

class DistilBertFirstTokenHead final : public FirstTokenHead {
 public:
  DistilBertFirstTokenHead(const std::shared_ptr<DistilBertModel>& distilbert, const char* head,
                           Task task)
      : FirstTokenHead(below_head(head, distilbert), task),
        dropout_(distilbert->values().seq_classif_dropout),
        pre_classifier_(distilbert->hidden_size(), distilbert->hidden_size()),
        classifier_(distilbert->hidden_size(), scores()) {
    register_module("pre_classifier", pre_classifier_);
    register_module("classifier", classifier_);
    post_init();
  }
  at::Tensor scores_of(const at::Tensor& first) override {
    return classifier_(dropout_of(at::relu(pre_classifier_(first)), dropout_, is_training()));
  }

 private:
  double dropout_;
  Linear pre_classifier_, classifier_;
};

class DistilBertForMaskedLM final : public MaskedLM {
 public:
  explicit DistilBertForMaskedLM(const std::shared_ptr<DistilBertModel>& distilbert)
      : MaskedLM(below_head("ForMaskedLM", distilbert),
                 activation_of(distilbert->values().activation), kDistilBertEpsilon) {
    register_module("vocab_transform", dense);
    register_module("vocab_layer_norm", norm);
    register_module("vocab_projector", decoder);
    post_init();
  }
};

std::shared_ptr<DistilBertModel> make_distilbert(const PretrainedConfig& config) {
  return std::make_shared<DistilBertModel>(config);
}

std::shared_ptr<PreTrainedModel> distilbert_for_tokens(const PretrainedConfig& config) {
  const auto distilbert = make_distilbert(config);
  return std::make_shared<TokenClassification>(below_head("ForTokenClassification", distilbert),
                                               "classifier", distilbert->values().dropout);
}

std::shared_ptr<PreTrainedModel> distilbert_for_answers(const PretrainedConfig& config) {
  const auto distilbert = make_distilbert(config);
  check_two_labels(config);
  return std::make_shared<QuestionAnswering>(below_head("ForQuestionAnswering", distilbert),
                                             distilbert->values().qa_dropout);
}

}  // namespace

Architecture distilbert() {
  using enum Task;
  return {.model_type = "distilbert",
          .classes = {{base, make_distilbert},
                      {sequence_classification,
                       with_head<DistilBertFirstTokenHead>(
                           make_distilbert, "ForSequenceClassification", sequence_classification)},
                      {multiple_choice, with_head<DistilBertFirstTokenHead>(
                                            make_distilbert, "ForMultipleChoice", multiple_choice)},
                      {masked_lm, with_head<DistilBertForMaskedLM>(make_distilbert)},
                      {token_classification, distilbert_for_tokens},
                      {question_answering, distilbert_for_answers}},
          .keys = keys_of<DistilBertConfig>(),
          .size_keys = {.width = "dim", .inner = "hidden_dim", .layers = "n_layers"},
          .aliases = {{"hidden_size", "dim"},
                      {"num_attention_heads", "n_heads"},
                      {"num_hidden_layers", "n_layers"}}};
}

}  // namespace accelerate::detail
