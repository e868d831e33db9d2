// What the sources of BART have in common.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/transformers/models/architectures/heads.h"
#include "accelerate/transformers/models/architectures/seq2seq.h"

namespace accelerate::detail {

/// The keys of config.json, with Transformers' defaults.
struct BartConfig {
  std::int64_t vocab_size = 50265;
  std::int64_t max_position_embeddings = 1024;
  std::int64_t encoder_layers = 12;
  std::int64_t encoder_ffn_dim = 4096;
  std::int64_t encoder_attention_heads = 16;
  std::int64_t decoder_layers = 12;
  std::int64_t decoder_ffn_dim = 4096;
  std::int64_t decoder_attention_heads = 16;
  double encoder_layerdrop = 0;
  double decoder_layerdrop = 0;
  std::string activation_function = "gelu";
  std::int64_t d_model = 1024;
  double dropout = 0.1;
  double attention_dropout = 0;
  double activation_dropout = 0;
  double init_std = 0.02;
  double classifier_dropout = 0;
  bool scale_embedding = false;
  std::optional<std::int64_t> pad_token_id = 1;
  std::optional<std::int64_t> decoder_start_token_id = 2;
  bool tie_word_embeddings = true;

  template <typename Self, typename Visit>
  static void visit(Self& self, const Visit& visit) {
    visit("vocab_size", self.vocab_size, limits::kWords);
    visit("max_position_embeddings", self.max_position_embeddings, limits::kWords);
    visit("encoder_layers", self.encoder_layers, limits::kLayers);
    visit("encoder_ffn_dim", self.encoder_ffn_dim, limits::kInner);
    visit("encoder_attention_heads", self.encoder_attention_heads, limits::kHeads);
    visit("decoder_layers", self.decoder_layers, limits::kLayers);
    visit("decoder_ffn_dim", self.decoder_ffn_dim, limits::kInner);
    visit("decoder_attention_heads", self.decoder_attention_heads, limits::kHeads);
    visit("encoder_layerdrop", self.encoder_layerdrop, limits::kShare);
    visit("decoder_layerdrop", self.decoder_layerdrop, limits::kShare);
    visit("activation_function", self.activation_function);
    visit("d_model", self.d_model, limits::kWidth);
    visit("dropout", self.dropout, limits::kShare);
    visit("attention_dropout", self.attention_dropout, limits::kShare);
    visit("activation_dropout", self.activation_dropout, limits::kShare);
    visit("init_std", self.init_std, limits::kDeviation);
    visit("classifier_dropout", self.classifier_dropout, limits::kShare);
    visit("scale_embedding", self.scale_embedding);
    visit("pad_token_id", self.pad_token_id, limits::kTokenId);
    visit("decoder_start_token_id", self.decoder_start_token_id, limits::kTokenId);
    visit("tie_word_embeddings", self.tie_word_embeddings);
  }
};

/// What all models of BART have in common.
template <typename Base>
class BartWeights : public Base {
 public:
  using Base::Base;
  [[nodiscard]] std::vector<std::string> no_split_modules() const override {
    return {"BartEncoderLayer", "BartDecoderLayer"};
  }
  [[nodiscard]] bool ignores(const std::string& name) const override {
    return name.ends_with("encoder.version") || name.ends_with("decoder.version") ||
           Base::ignores(name);
  }

 protected:
  [[nodiscard]] double usual_deviation() const override {
    return read_config<BartConfig>(this->config()).init_std;
  }
};

/// Returns a BartForSequenceClassification. It reads what the decoder made of the last end token, as it
/// restores the encoder's text. labels: int64 {B}, or targets of a regression. logits: {B, C}.
[[nodiscard]] std::shared_ptr<PreTrainedModel> bart_for_rows(std::shared_ptr<Seq2SeqModel> bart);
/// Returns a BartForQuestionAnswering. start_positions, end_positions: int64 {B}. start_logits,
/// end_logits: {B, T}, of the decoder.
[[nodiscard]] std::shared_ptr<PreTrainedModel> bart_for_answers(std::shared_ptr<Seq2SeqModel> bart);

}  // namespace accelerate::detail
