// RoBERTa: BERT's layers, positions counted from pad_token_id + 1, some heads of its own.
// Source: Liu et al. 2019; `modeling_roberta.py` of Transformers.
#pragma once

#include "accelerate/transformers/models/architectures/bert.h"

namespace accelerate {
namespace detail {

[[nodiscard]] const BertFamily& roberta_family();

/// {…, H} → {…, V}: scores of the words that may stand at a token's place.
class RobertaLMHeadImpl : public torch::nn::Module {
 public:
  explicit RobertaLMHeadImpl(const BertConfig& config);
  [[nodiscard]] at::Tensor forward(const at::Tensor& hidden);

  Linear decoder;
  /// The decoder's bias, under a second name; without tied embeddings a tensor that nothing reads.
  at::Tensor bias;

 private:
  Linear dense_;
  torch::nn::LayerNorm norm_;
};
TORCH_MODULE(RobertaLMHead);

}  // namespace detail

/// The encoder alone. Its output has last_hidden_state and, with a pooler, pooler_output.
class RobertaModelImpl : public BertModelImpl {
 public:
  explicit RobertaModelImpl(const PretrainedConfig& config)
      : BertModelImpl(config, /*add_pooling_layer=*/true, detail::roberta_family()) {}
};
TORCH_MODULE(RobertaModel);

/// labels: int64 {B}, or targets of a regression. logits: {B, C}.
class RobertaForSequenceClassificationImpl : public BertWithHead {
 public:
  explicit RobertaForSequenceClassificationImpl(const PretrainedConfig& config);
  using TextModel::forward;
  [[nodiscard]] ModelOutput forward(const TextInputs& inputs) override;

 private:
  detail::Linear dense_, out_proj_;
};
TORCH_MODULE(RobertaForSequenceClassification);

/// labels: int64 {B, T}, -100 where a token has none. logits: {B, T, C}.
class RobertaForTokenClassificationImpl : public BertForTokenClassificationImpl {
 public:
  explicit RobertaForTokenClassificationImpl(const PretrainedConfig& config)
      : BertForTokenClassificationImpl(config, detail::roberta_family()) {}
};
TORCH_MODULE(RobertaForTokenClassification);

/// start_positions, end_positions: int64 {B}. start_logits, end_logits: {B, T}.
class RobertaForQuestionAnsweringImpl : public BertForQuestionAnsweringImpl {
 public:
  explicit RobertaForQuestionAnsweringImpl(const PretrainedConfig& config)
      : BertForQuestionAnsweringImpl(config, detail::roberta_family()) {}
};
TORCH_MODULE(RobertaForQuestionAnswering);

/// labels: int64 {B, T}, -100 where no word was masked. logits: {B, T, V}.
class RobertaForMaskedLMImpl : public BertWithHead {
 public:
  explicit RobertaForMaskedLMImpl(const PretrainedConfig& config);
  using TextModel::forward;
  [[nodiscard]] ModelOutput forward(const TextInputs& inputs) override;
  void tie_weights() override;
  [[nodiscard]] detail::Linear output_embeddings() override { return lm_head->decoder; }
  [[nodiscard]] at::Tensor second_output_bias() override { return lm_head->bias; }
  detail::RobertaLMHead lm_head;
};
TORCH_MODULE(RobertaForMaskedLM);

/// input_ids, attention_mask and so on: {B, choices, T}. labels: int64 {B}. logits: {B, choices}.
class RobertaForMultipleChoiceImpl : public BertForMultipleChoiceImpl {
 public:
  explicit RobertaForMultipleChoiceImpl(const PretrainedConfig& config)
      : BertForMultipleChoiceImpl(config, detail::roberta_family()) {}
};
TORCH_MODULE(RobertaForMultipleChoice);

}  // namespace accelerate
