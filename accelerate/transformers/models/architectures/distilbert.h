// DistilBERT: half of BERT's layers, no types of tokens, no pooler. Modules have the names that
// they have in Transformers. Source: Sanh et al. 2019; `modeling_distilbert.py` of Transformers.
#pragma once

#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/normalization.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/transformers/models/architectures/text_model.h"
#include "accelerate/transformers/models/config/limits.h"
#include "accelerate/transformers/models/layers/activations.h"
#include "accelerate/transformers/models/layers/linear.h"

namespace accelerate {

/// The keys of config.json, with Transformers' defaults.
struct DistilBertConfig {
  std::int64_t vocab_size = 30522;
  std::int64_t max_position_embeddings = 512;
  bool sinusoidal_pos_embds = false;  ///< Initialises positions with sines.
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
    visit("vocab_size", self.vocab_size, detail::limits::kWords);
    visit("max_position_embeddings", self.max_position_embeddings, detail::limits::kWords);
    visit("sinusoidal_pos_embds", self.sinusoidal_pos_embds);
    visit("n_layers", self.n_layers, detail::limits::kLayers);
    visit("n_heads", self.n_heads, detail::limits::kHeads);
    visit("dim", self.dim, detail::limits::kWidth);
    visit("hidden_dim", self.hidden_dim, detail::limits::kInner);
    visit("dropout", self.dropout, detail::limits::kShare);
    visit("attention_dropout", self.attention_dropout, detail::limits::kShare);
    visit("activation", self.activation);
    visit("initializer_range", self.initializer_range, detail::limits::kDeviation);
    visit("qa_dropout", self.qa_dropout, detail::limits::kShare);
    visit("seq_classif_dropout", self.seq_classif_dropout, detail::limits::kShare);
    visit("pad_token_id", self.pad_token_id, detail::limits::kTokenId);
    visit("tie_word_embeddings", self.tie_word_embeddings);
  }
};

namespace detail {

/// Adds the embeddings of a token's word and position, and norms the sum. words: {…, H};
/// position_ids: {…}. Returns {…, H}.
class DistilBertEmbeddingsImpl : public torch::nn::Module {
 public:
  explicit DistilBertEmbeddingsImpl(const DistilBertConfig& config);
  [[nodiscard]] at::Tensor forward(const at::Tensor& words, const at::Tensor& position_ids);

  torch::nn::Embedding word_embeddings, position_embeddings;

 private:
  torch::nn::LayerNorm norm_;
  double dropout_;
};
TORCH_MODULE(DistilBertEmbeddings);

/// Attention and a feed-forward network, each added to its input and normed. {…, H} → {…, H}, or
/// {B, H} for the first tokens alone if spec.first_alone.
class TransformerBlockImpl : public torch::nn::Module {
 public:
  explicit TransformerBlockImpl(const DistilBertConfig& config);
  [[nodiscard]] at::Tensor forward(const at::Tensor& hidden, const Tokens& tokens,
                                   AttentionSpec spec);

 private:
  std::int64_t heads_;
  double dropout_, attention_dropout_;
  Activation activation_;
  Linear query_, key_, value_, attention_output_, intermediate_, output_;
  torch::nn::LayerNorm attention_norm_, output_norm_;
};
TORCH_MODULE(TransformerBlock);

}  // namespace detail

/// The encoder alone. Its output has last_hidden_state. token_type_ids are not read, as in Python.
class DistilBertModelImpl : public TextModel {
 public:
  explicit DistilBertModelImpl(const PretrainedConfig& config);
  using TextModel::forward;
  [[nodiscard]] ModelOutput forward(const TextInputs& inputs) override;
  [[nodiscard]] std::vector<std::string> no_split_modules() const override;
  [[nodiscard]] ParallelPlan parallel_plan() const override;

  [[nodiscard]] detail::Computed encode(const TextInputs& inputs, detail::HeadNeeds needs);
  [[nodiscard]] const DistilBertConfig& values() const { return values_; }
  [[nodiscard]] torch::nn::Embedding input_embeddings() override {
    return embeddings->word_embeddings;
  }

  detail::DistilBertEmbeddings embeddings = nullptr;

 protected:
  void init_weights(torch::nn::Module& module, detail::WeightInitialiser& initialiser) override;

 private:
  DistilBertConfig values_;
  torch::nn::ModuleList layers_;
};
TORCH_MODULE(DistilBertModel);

/// DistilBERT below a head, under the name "distilbert".
class DistilBertWithHead : public TextModel {
 public:
  using TextModel::forward;
  [[nodiscard]] std::vector<std::string> no_split_modules() const override;
  [[nodiscard]] torch::nn::Embedding input_embeddings() override {
    return distilbert->input_embeddings();
  }

  DistilBertModel distilbert;

 protected:
  DistilBertWithHead(const std::string& name, const PretrainedConfig& config);
};

/// labels: int64 {B}, or targets of a regression. logits: {B, C}.
class DistilBertForSequenceClassificationImpl : public DistilBertWithHead {
 public:
  explicit DistilBertForSequenceClassificationImpl(const PretrainedConfig& config);
  using TextModel::forward;
  [[nodiscard]] ModelOutput forward(const TextInputs& inputs) override;
  detail::Linear pre_classifier, classifier;
};
TORCH_MODULE(DistilBertForSequenceClassification);

/// labels: int64 {B, T}, -100 where a token has none. logits: {B, T, C}.
class DistilBertForTokenClassificationImpl : public DistilBertWithHead {
 public:
  explicit DistilBertForTokenClassificationImpl(const PretrainedConfig& config);
  using TextModel::forward;
  [[nodiscard]] ModelOutput forward(const TextInputs& inputs) override;
  detail::Linear classifier;
};
TORCH_MODULE(DistilBertForTokenClassification);

/// start_positions, end_positions: int64 {B}. start_logits, end_logits: {B, T}.
class DistilBertForQuestionAnsweringImpl : public DistilBertWithHead {
 public:
  explicit DistilBertForQuestionAnsweringImpl(const PretrainedConfig& config);
  using TextModel::forward;
  [[nodiscard]] ModelOutput forward(const TextInputs& inputs) override;
  detail::Linear qa_outputs;
};
TORCH_MODULE(DistilBertForQuestionAnswering);

/// labels: int64 {B, T}, -100 where no word was masked. logits: {B, T, V}.
class DistilBertForMaskedLMImpl : public DistilBertWithHead {
 public:
  explicit DistilBertForMaskedLMImpl(const PretrainedConfig& config);
  using TextModel::forward;
  [[nodiscard]] ModelOutput forward(const TextInputs& inputs) override;
  void tie_weights() override;
  [[nodiscard]] detail::Linear output_embeddings() override { return vocab_projector; }
  detail::Linear vocab_transform, vocab_projector;

 private:
  torch::nn::LayerNorm norm_;
};
TORCH_MODULE(DistilBertForMaskedLM);

/// input_ids, attention_mask and so on: {B, choices, T}. labels: int64 {B}. logits: {B, choices}.
class DistilBertForMultipleChoiceImpl : public DistilBertWithHead {
 public:
  explicit DistilBertForMultipleChoiceImpl(const PretrainedConfig& config);
  using TextModel::forward;
  [[nodiscard]] ModelOutput forward(const TextInputs& inputs) override;
  detail::Linear pre_classifier, classifier;
};
TORCH_MODULE(DistilBertForMultipleChoice);

}  // namespace accelerate
