// BERT. Modules have the names that they have in Transformers.
// Source: Devlin et al. 2018; `modeling_bert.py` of Transformers.
#pragma once

#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/normalization.h>

#include <cstdint>
#include <optional>
#include <string>

#include "accelerate/transformers/models/architectures/text_model.h"
#include "accelerate/transformers/models/config/limits.h"
#include "accelerate/transformers/models/layers/activations.h"
#include "accelerate/transformers/models/layers/linear.h"

namespace accelerate {

/// The keys of config.json, with Transformers' defaults.
struct BertConfig {
  std::int64_t vocab_size = 30522;
  std::int64_t hidden_size = 768;
  std::int64_t num_hidden_layers = 12;
  std::int64_t num_attention_heads = 12;
  std::int64_t intermediate_size = 3072;
  std::string hidden_act = "gelu";
  double hidden_dropout_prob = 0.1;
  double attention_probs_dropout_prob = 0.1;
  std::int64_t max_position_embeddings = 512;
  std::int64_t type_vocab_size = 2;
  double initializer_range = 0.02;
  double layer_norm_eps = 1e-12;
  std::optional<std::int64_t> pad_token_id = 0;
  std::optional<double> classifier_dropout = {};  ///< hidden_dropout_prob if not given.
  bool tie_word_embeddings = true;

  template <typename Self, typename Visit>
  static void visit(Self& self, const Visit& visit) {
    visit("vocab_size", self.vocab_size, detail::limits::kWords);
    visit("hidden_size", self.hidden_size, detail::limits::kWidth);
    visit("num_hidden_layers", self.num_hidden_layers, detail::limits::kLayers);
    visit("num_attention_heads", self.num_attention_heads, detail::limits::kHeads);
    visit("intermediate_size", self.intermediate_size, detail::limits::kInner);
    visit("hidden_act", self.hidden_act);
    visit("hidden_dropout_prob", self.hidden_dropout_prob, detail::limits::kShare);
    visit("attention_probs_dropout_prob", self.attention_probs_dropout_prob,
          detail::limits::kShare);
    visit("max_position_embeddings", self.max_position_embeddings, detail::limits::kWords);
    visit("type_vocab_size", self.type_vocab_size, detail::limits::kWords);
    visit("initializer_range", self.initializer_range, detail::limits::kDeviation);
    visit("layer_norm_eps", self.layer_norm_eps, detail::limits::kEpsilon);
    visit("pad_token_id", self.pad_token_id, detail::limits::kTokenId);
    visit("classifier_dropout", self.classifier_dropout, detail::limits::kShare);
    visit("tie_word_embeddings", self.tie_word_embeddings);
  }
};

namespace detail {

/// How an architecture that has BERT's layers differs from BERT.
struct BertFamily {
  std::string class_prefix = "Bert";       ///< Of module names: "BertLayer".
  std::string base_model_prefix = "bert";  ///< Of parameter names below a head.
  BertConfig defaults = {};
  /// Whether positions are counted from pad_token_id + 1, and padding has the position
  /// pad_token_id, whatever the attention mask says.
  bool counts_behind_padding = false;
};

/// Adds the embeddings of a token's word, position and type, and norms the sum. words: {…, H};
/// token_type_ids, position_ids: {…}. Returns {…, H}.
class BertEmbeddingsImpl : public torch::nn::Module {
 public:
  BertEmbeddingsImpl(const BertConfig& config, const BertFamily& family);
  [[nodiscard]] at::Tensor forward(const at::Tensor& words, const at::Tensor& token_type_ids,
                                   const at::Tensor& position_ids);

  torch::nn::Embedding word_embeddings, position_embeddings, token_type_embeddings;
  torch::nn::LayerNorm norm;

 private:
  double dropout_;
};
TORCH_MODULE(BertEmbeddings);

/// Attention and a feed-forward network, each added to its input and normed. {…, H} → {…, H}, or
/// {B, H} for the first tokens alone if spec.first_alone.
class BertLayerImpl : public torch::nn::Module {
 public:
  BertLayerImpl(const BertConfig& config, const BertFamily& family);
  [[nodiscard]] at::Tensor forward(const at::Tensor& hidden, const Tokens& tokens,
                                   AttentionSpec spec);

 private:
  std::int64_t heads_;
  double dropout_, attention_dropout_;
  Activation activation_;
  Linear query_, key_, value_, attention_output_, intermediate_, output_;
  torch::nn::LayerNorm attention_norm_, output_norm_;
};
TORCH_MODULE(BertLayer);

/// {…, H} → {…, V}: scores of the words that may stand at a token's place.
class BertLMPredictionHeadImpl : public torch::nn::Module {
 public:
  explicit BertLMPredictionHeadImpl(const BertConfig& config);
  [[nodiscard]] at::Tensor forward(const at::Tensor& hidden);

  Linear decoder;
  /// The decoder's bias, under a second name; without tied embeddings a tensor that nothing reads.
  at::Tensor bias;

 private:
  Activation activation_;
  Linear dense_ = nullptr;
  torch::nn::LayerNorm norm_ = nullptr;
};
TORCH_MODULE(BertLMPredictionHead);

}  // namespace detail

/// The encoder alone. Its output has last_hidden_state and, with a pooler, pooler_output.
class BertModelImpl : public TextModel {
 public:
  explicit BertModelImpl(const PretrainedConfig& config, bool add_pooling_layer = true,
                         const detail::BertFamily& family = {});
  using TextModel::forward;
  [[nodiscard]] ModelOutput forward(const TextInputs& inputs) override;
  [[nodiscard]] std::vector<std::string> no_split_modules() const override;
  [[nodiscard]] ParallelPlan parallel_plan() const override;

  [[nodiscard]] detail::Computed encode(const TextInputs& inputs, detail::HeadNeeds needs);
  /// tanh(W · first token + b): {B, H}.
  [[nodiscard]] at::Tensor pool(const detail::Computed& computed);

  [[nodiscard]] const BertConfig& values() const { return values_; }
  [[nodiscard]] torch::nn::Embedding input_embeddings() override {
    return embeddings->word_embeddings;
  }

  detail::BertEmbeddings embeddings = nullptr;

 private:
  // {1 or B, T}
  [[nodiscard]] at::Tensor positions_of(const TextInputs& inputs) const;

  BertConfig values_;
  detail::BertFamily family_;
  torch::nn::ModuleList layers_;
  detail::Linear pooler_ = nullptr;
};
TORCH_MODULE(BertModel);

/// BERT below a head, under the base_model_prefix of its family.
class BertWithHead : public TextModel {
 public:
  using TextModel::forward;
  [[nodiscard]] std::vector<std::string> no_split_modules() const override;
  [[nodiscard]] torch::nn::Embedding input_embeddings() override {
    return bert->input_embeddings();
  }

  BertModel bert;

 protected:
  /// `head`: the end of the class's name, such as "ForTokenClassification".
  BertWithHead(const std::string& head, const PretrainedConfig& config, bool add_pooling_layer,
               const detail::BertFamily& family);
  [[nodiscard]] at::Tensor dropped(const at::Tensor& hidden) const;
};

/// labels: int64 {B}, or targets of a regression. logits: {B, C}.
class BertForSequenceClassificationImpl : public BertWithHead {
 public:
  explicit BertForSequenceClassificationImpl(const PretrainedConfig& config);
  using TextModel::forward;
  [[nodiscard]] ModelOutput forward(const TextInputs& inputs) override;
  detail::Linear classifier;
};
TORCH_MODULE(BertForSequenceClassification);

/// labels: int64 {B, T}, -100 where a token has none. logits: {B, T, C}.
class BertForTokenClassificationImpl : public BertWithHead {
 public:
  explicit BertForTokenClassificationImpl(const PretrainedConfig& config,
                                          const detail::BertFamily& family = {});
  using TextModel::forward;
  [[nodiscard]] ModelOutput forward(const TextInputs& inputs) override;
  detail::Linear classifier;
};
TORCH_MODULE(BertForTokenClassification);

/// start_positions, end_positions: int64 {B}. start_logits, end_logits: {B, T}.
class BertForQuestionAnsweringImpl : public BertWithHead {
 public:
  explicit BertForQuestionAnsweringImpl(const PretrainedConfig& config,
                                        const detail::BertFamily& family = {});
  using TextModel::forward;
  [[nodiscard]] ModelOutput forward(const TextInputs& inputs) override;
  detail::Linear qa_outputs;
};
TORCH_MODULE(BertForQuestionAnswering);

/// labels: int64 {B, T}, -100 where no word was masked. logits: {B, T, V}.
class BertForMaskedLMImpl : public BertWithHead {
 public:
  explicit BertForMaskedLMImpl(const PretrainedConfig& config);
  using TextModel::forward;
  [[nodiscard]] ModelOutput forward(const TextInputs& inputs) override;
  void tie_weights() override;
  [[nodiscard]] detail::Linear output_embeddings() override { return predictions->decoder; }
  [[nodiscard]] at::Tensor second_output_bias() override { return predictions->bias; }
  detail::BertLMPredictionHead predictions;
};
TORCH_MODULE(BertForMaskedLM);

/// input_ids, attention_mask and so on: {B, choices, T}. labels: int64 {B}. logits: {B, choices}.
class BertForMultipleChoiceImpl : public BertWithHead {
 public:
  explicit BertForMultipleChoiceImpl(const PretrainedConfig& config,
                                     const detail::BertFamily& family = {});
  using TextModel::forward;
  [[nodiscard]] ModelOutput forward(const TextInputs& inputs) override;
  detail::Linear classifier;
};
TORCH_MODULE(BertForMultipleChoice);

}  // namespace accelerate
