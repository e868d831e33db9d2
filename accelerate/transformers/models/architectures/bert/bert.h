// BERT, and the parts of it that other encoders share. Modules have the names that they have in
// Transformers. Source: Devlin et al. 2018; `modeling_bert.py` of Transformers.
#pragma once

#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/normalization.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/transformers/models/architectures/heads.h"

namespace accelerate::detail {

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
  std::optional<double> classifier_dropout = {};    ///< hidden_dropout_prob if not given.
  std::optional<std::int64_t> embedding_size = {};  ///< ELECTRA only; else hidden_size.
  bool tie_word_embeddings = true;

  template <typename Self, typename Visit>
  static void visit(Self& self, const Visit& visit) {
    visit("vocab_size", self.vocab_size, limits::kWords);
    visit("hidden_size", self.hidden_size, limits::kWidth);
    visit("num_hidden_layers", self.num_hidden_layers, limits::kLayers);
    visit("num_attention_heads", self.num_attention_heads, limits::kHeads);
    visit("intermediate_size", self.intermediate_size, limits::kInner);
    visit("hidden_act", self.hidden_act);
    visit("hidden_dropout_prob", self.hidden_dropout_prob, limits::kShare);
    visit("attention_probs_dropout_prob", self.attention_probs_dropout_prob, limits::kShare);
    visit("max_position_embeddings", self.max_position_embeddings, limits::kWords);
    visit("type_vocab_size", self.type_vocab_size, limits::kWords);
    visit("initializer_range", self.initializer_range, limits::kDeviation);
    visit("layer_norm_eps", self.layer_norm_eps, limits::kEpsilon);
    visit("pad_token_id", self.pad_token_id, limits::kTokenId);
    visit("classifier_dropout", self.classifier_dropout, limits::kShare);
    visit("embedding_size", self.embedding_size, limits::kWidth);
    visit("tie_word_embeddings", self.tie_word_embeddings);
  }
};

/// How an architecture that has BERT's layers differs from BERT.
struct BertFamily {
  std::string class_prefix = "Bert";       ///< Of module names: "BertLayer".
  std::string base_model_prefix = "bert";  ///< Of parameter names below a head.
  BertConfig defaults = {};
  /// Whether positions are counted from pad_token_id + 1, and padding has the position
  /// pad_token_id, whatever the attention mask says.
  bool counts_behind_padding = false;
  bool reads_embedding_size = false;  ///< embedding_size counts.
  bool makes_head_first = false;      ///< As BelowHead says.
};

/// The encoder alone. Its output has last_hidden_state and, with a pooler, pooler_output.
class BertModel : public EncoderModel {
 public:
  BertModel(const PretrainedConfig& config, const BertFamily& family, bool pools);
  [[nodiscard]] std::vector<std::string> no_split_modules() const override;
  [[nodiscard]] ParallelPlan parallel_plan() const override;
  [[nodiscard]] std::vector<PythonBuffer> python_buffers() const override;
  [[nodiscard]] bool ties_embeddings() const override { return values_.tie_word_embeddings; }
  [[nodiscard]] torch::nn::Embedding input_embeddings() override { return words_; }
  [[nodiscard]] std::int64_t hidden_size() override { return values_.hidden_size; }

  [[nodiscard]] const BertConfig& values() const { return values_; }
  [[nodiscard]] const BertFamily& family() const { return family_; }
  /// The share of the hidden states that is dropped before the last layer of a head.
  [[nodiscard]] double dropout_of_head() const {
    return values_.classifier_dropout.value_or(values_.hidden_dropout_prob);
  }
  /// tanh(W · first token + b): {B, H}.
  [[nodiscard]] at::Tensor pool(const at::Tensor& first);

 protected:
  [[nodiscard]] ModelOutput output_of(const TextInputs& inputs) override;
  [[nodiscard]] at::Tensor embedded(const TextInputs& inputs, const Tokens& tokens) override;

 private:
  // {1 or B, T}
  [[nodiscard]] at::Tensor places_of(const TextInputs& inputs) const;

  BertConfig values_;
  BertFamily family_;
  torch::nn::Embedding words_, positions_, types_;
  torch::nn::LayerNorm norm_;
  Linear projection_ = nullptr, pooler_ = nullptr;
};

/// `head`: the end of the class's name, such as "ForTokenClassification".
[[nodiscard]] BelowHead below_head(const std::string& head, const std::shared_ptr<BertModel>& bert);

/// Reads the first token of each row through a layer of its own: out(activation(dense(first))).
class DenseFirstTokenHead final : public FirstTokenHead {
 public:
  DenseFirstTokenHead(const std::shared_ptr<BertModel>& bert, Activation activation);
  at::Tensor scores_of(const at::Tensor& first) override;

 private:
  double dropout_;
  Activation activation_;
  Linear dense_, out_proj_;
};

/// Makes a BertModel of `family`.
struct MakeBert {
  BertFamily family;
  bool pools;
  std::shared_ptr<BertModel> operator()(const PretrainedConfig& config) const {
    return std::make_shared<BertModel>(config, family, pools);
  }
};

/// Returns an architecture with BERT's layers and BERT's heads.
[[nodiscard]] Architecture bert_like(std::string_view model_type, const BertFamily& family);

}  // namespace accelerate::detail
