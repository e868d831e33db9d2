// Encoder-decoder models: the decoder predicts a text, and sees all that the encoder made of another.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/transformers/models/architectures/base_models.h"

namespace accelerate::detail {

/// Embeddings that may share their weight with others, under both names.
class SharedEmbeddingImpl : public torch::nn::EmbeddingImpl {
 public:
  using torch::nn::EmbeddingImpl::EmbeddingImpl;
  void tie_weight(const at::Tensor& shared) { weight = parameters_["weight"] = shared; }
};

/// What the layers of a decoder read of the encoder.
struct EncodedText {
  Tokens tokens;           ///< Of the encoder.
  at::Tensor hidden = {};  ///< {…, H} in their layout; undefined if the cache has what layers read.
  AttentionSpec spec = {};
  bool is_given = false;  ///< Whether `hidden` is what the caller gave as encoder_outputs.

  /// Throws UsageError if `hidden` was given with another type than `of_decoder`, the input of the
  /// decoder's layers. Under autocast any type is allowed.
  void check_type(const at::Tensor& of_decoder) const;
  /// Returns what the layer spec.layer reads: keys and values, {…, heads, dim}. `project` makes them
  /// of `hidden`, if the cache does not have them.
  template <typename Project>
  [[nodiscard]] ReadText read(const Project& project) const {
    if (spec.cache != nullptr) {
      if (const auto kept = spec.cache->read(spec.layer))
        return {kept->first.transpose(1, 2), kept->second.transpose(1, 2), tokens};
    }
    const std::pair<at::Tensor, at::Tensor> made = project(hidden);
    if (spec.cache != nullptr)
      spec.cache->keep_read(spec.layer, made.first.transpose(1, 2), made.second.transpose(1, 2));
    return {made.first, made.second, tokens};
  }
};

/// A model without a head: embeddings that both sides share, an encoder and a decoder. Its output has
/// last_hidden_state, of the decoder, and encoder_last_hidden_state.
class Seq2SeqModel : public BaseTextModel {
 public:
  using BaseTextModel::BaseTextModel;

  /// What both sides have computed.
  struct Sides {
    Computed encoder, decoder;
    std::vector<at::Tensor> cross_attentions = {};
    at::Tensor encoder_outputs = {};  ///< {B, T, H}; undefined if the cache has what layers read.

    /// Returns an output with hidden states, attentions and cache.
    [[nodiscard]] ModelOutput output() const;
  };
  [[nodiscard]] Sides run(const TextInputs& inputs, const HeadNeeds& needs);
  /// Returns what the encoder makes of input_ids, {B, T, H}.
  [[nodiscard]] at::Tensor encode(const TextInputs& inputs);
  [[nodiscard]] Computed compute(const TextInputs& inputs, const HeadNeeds& needs) override {
    return run(inputs, needs).decoder;
  }
  [[nodiscard]] std::vector<std::string> input_names() const override;
  /// Returns `labels`, int64 {B, T}, one place to the right, behind decoder_start_token_id, with
  /// pad_token_id for -100. Throws ConfigError if the configuration lacks one of both, and UsageError
  /// for labels of another shape or type, or without tokens.
  [[nodiscard]] at::Tensor prepare_decoder_input_ids_from_labels(
      const at::Tensor& labels) const override;
  /// The longest text that the decoder is made for, in tokens.
  [[nodiscard]] virtual std::int64_t max_positions() const = 0;

 protected:
  [[nodiscard]] ModelOutput output_of(const TextInputs& inputs) override;
  [[nodiscard]] virtual BaseTextModel& encoder() = 0;
  /// What labels are read behind, and what stands for -100, where config.json lacks the keys. As in
  /// Transformers, generate() does not take these values: it then begins with bos_token_id.
  struct DecoderTokens {
    std::optional<std::int64_t> start = {}, padding = {};
  };
  [[nodiscard]] virtual DecoderTokens usual_tokens() const = 0;
  /// As prepare_decoder_input_ids_from_labels(), for tokens of any kind. ids: {B, T}, T above 0.
  [[nodiscard]] at::Tensor shifted_right(const at::Tensor& ids) const;
  /// Computes the decoder's side. computed: has the tokens and the cache of `inputs`.
  virtual void decode(Computed& computed, const TextInputs& inputs, const EncodedText& text) = 0;
  /// Returns the tokens that the decoder reads if decoder_input_ids were not given. Throws UsageError
  /// if there are none.
  [[nodiscard]] virtual at::Tensor decoder_ids_of(const TextInputs& inputs) const;

 private:
  [[nodiscard]] EncodedText encoded(Sides& sides, const TextInputs& inputs);
};

/// A model with a head for the next token of the decoder.
class Seq2SeqLM {
 public:
  virtual ~Seq2SeqLM() = default;
  [[nodiscard]] virtual Seq2SeqModel& sides() = 0;

 protected:
  Seq2SeqLM() = default;
  Seq2SeqLM(const Seq2SeqLM&) = default;
  Seq2SeqLM& operator=(const Seq2SeqLM&) = default;
  /// Returns the output of a model whose `scores_of` takes the decoder's hidden states, {…, H}, and
  /// returns {…, V}. labels: int64 {B, T}, -100 where there is none: what the decoder predicts at this
  /// place. logits: {B, T or logits_to_keep, V}.
  [[nodiscard]] ModelOutput lm_output(
      const TextInputs& inputs, const std::function<at::Tensor(const at::Tensor&)>& scores_of);
};

}  // namespace accelerate::detail
