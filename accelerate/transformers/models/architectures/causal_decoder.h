// What decoders (GPT-2, Llama and similar models) have in common: causal attention, a cache, heads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/transformers/models/architectures/text_model.h"
#include "accelerate/transformers/models/layers/key_value_cache.h"
#include "accelerate/transformers/models/layers/linear.h"

namespace accelerate {

/// A decoder without a head. Its output has last_hidden_state and, if asked for, past_key_values.
class DecoderModel : public TextModel {
 public:
  using TextModel::forward;
  using TextModel::TextModel;
  [[nodiscard]] ModelOutput forward(const TextInputs& inputs) override;

  [[nodiscard]] virtual detail::Computed compute(const TextInputs& inputs,
                                                 const detail::HeadNeeds& needs) = 0;
  [[nodiscard]] virtual std::int64_t hidden_size() const = 0;
  [[nodiscard]] virtual std::int64_t vocab_size() const = 0;
  /// The longest text that the model is made for, in tokens.
  [[nodiscard]] virtual std::int64_t max_positions() const = 0;

 protected:
  /// Returns the tokens of `inputs`, with a cache if one is wanted. Computes nothing yet.
  [[nodiscard]] detail::Computed begin(const TextInputs& inputs,
                                       const detail::HeadNeeds& needs) const;
};

/// A decoder below a head.
class DecoderWithHead : public TextModel {
 public:
  using TextModel::forward;
  [[nodiscard]] std::vector<std::string> no_split_modules() const override {
    return decoder().no_split_modules();
  }
  [[nodiscard]] bool ignores(const std::string& name) const override {
    return decoder_->ignores(name);
  }
  [[nodiscard]] DecoderModel& decoder() const { return *decoder_; }
  [[nodiscard]] torch::nn::Embedding input_embeddings() override {
    return decoder_->input_embeddings();
  }

 protected:
  /// `name`: the name of the class. The decoder is registered as the module `prefix`.
  DecoderWithHead(const std::string& name, const PretrainedConfig& config,
                  std::shared_ptr<DecoderModel> decoder, const std::string& prefix);

 private:
  std::shared_ptr<DecoderModel> decoder_;
};

/// labels: int64 {B, T}, each token's own id, or -100 for no label. The model compares a label with
/// what the token before it predicts. logits: {B, T or logits_to_keep, V}.
class DecoderForCausalLM : public DecoderWithHead {
 public:
  using TextModel::forward;
  [[nodiscard]] ModelOutput forward(const TextInputs& inputs) override;
  void tie_weights() override;
  [[nodiscard]] ParallelPlan parallel_plan() const override;
  [[nodiscard]] detail::Linear output_embeddings() override { return lm_head; }

  detail::Linear lm_head;

 protected:
  DecoderForCausalLM(const std::string& name, const PretrainedConfig& config,
                     std::shared_ptr<DecoderModel> decoder, const std::string& prefix,
                     bool ties_embeddings);

 private:
  bool ties_embeddings_;
};

/// Classifies a row by its last token that is not pad_token_id. labels: int64 {B}, or targets of a
/// regression. logits: {B, C}. Throws UsageError for several rows if there is no pad_token_id.
class DecoderForSequenceClassification : public DecoderWithHead {
 public:
  using TextModel::forward;
  [[nodiscard]] ModelOutput forward(const TextInputs& inputs) override;
  detail::Linear score;

 protected:
  DecoderForSequenceClassification(const std::string& name, const PretrainedConfig& config,
                                   std::shared_ptr<DecoderModel> decoder,
                                   const std::string& prefix);
};

/// labels: int64 {B, T}, -100 where a token has none. logits: {B, T, C}.
class DecoderForTokenClassification : public DecoderWithHead {
 public:
  using TextModel::forward;
  [[nodiscard]] ModelOutput forward(const TextInputs& inputs) override;
  detail::Linear head;

 protected:
  /// `head_name`: the name of the head's module, "score" or "classifier".
  DecoderForTokenClassification(const std::string& name, const PretrainedConfig& config,
                                std::shared_ptr<DecoderModel> decoder, const std::string& prefix,
                                const std::string& head_name);

 private:
  double dropout_;
};

/// start_positions, end_positions: int64 {B}. start_logits, end_logits: {B, T}.
class DecoderForQuestionAnswering : public DecoderWithHead {
 public:
  using TextModel::forward;
  [[nodiscard]] ModelOutput forward(const TextInputs& inputs) override;
  detail::Linear qa_outputs;

 protected:
  DecoderForQuestionAnswering(const std::string& name, const PretrainedConfig& config,
                              std::shared_ptr<DecoderModel> decoder, const std::string& prefix);
};

}  // namespace accelerate
