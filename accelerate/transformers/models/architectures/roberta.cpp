#include "accelerate/transformers/models/architectures/roberta.h"

#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>

#include "accelerate/transformers/models/layers/part.h"

namespace accelerate {
namespace detail {

const BertFamily& roberta_family() {
  static const BertFamily family = [] {
    BertFamily made{.class_prefix = "Roberta", .base_model_prefix = "roberta"};
    made.defaults.vocab_size = 50265;
    made.defaults.pad_token_id = 1;
    made.counts_behind_padding = true;
    return made;
  }();
  return family;
}

RobertaLMHeadImpl::RobertaLMHeadImpl(const BertConfig& config)
    : torch::nn::Module("RobertaLMHead"),
      decoder(config.hidden_size, config.vocab_size),
      dense_(config.hidden_size, config.hidden_size),
      norm_(torch::nn::LayerNormOptions({config.hidden_size}).eps(config.layer_norm_eps)) {
  register_module("dense", dense_);
  register_module("layer_norm", norm_);
  register_module("decoder", decoder);
  bias = register_parameter("bias", at::zeros({config.vocab_size}));
}

at::Tensor RobertaLMHeadImpl::forward(const at::Tensor& hidden) {
  return decoder(norm_(activation_of("gelu")(dense_(hidden))));
}

}  // namespace detail

RobertaForSequenceClassificationImpl::RobertaForSequenceClassificationImpl(
    const PretrainedConfig& config)
    : BertWithHead("ForSequenceClassification", config, false, detail::roberta_family()),
      dense_(bert->values().hidden_size, bert->values().hidden_size),
      out_proj_(bert->values().hidden_size, config.num_labels()) {
  auto& classifier = detail::part(*this, "classifier", "RobertaClassificationHead");
  classifier.register_module("dense", dense_);
  classifier.register_module("out_proj", out_proj_);
  post_init();
}

ModelOutput RobertaForSequenceClassificationImpl::forward(const TextInputs& inputs) {
  const auto computed = bert->encode(inputs, detail::HeadNeeds::first_of_rows(inputs));
  const at::Tensor first = dropped(computed.first());
  return detail::row_output(computed, out_proj_(dropped(at::tanh(dense_(first)))), inputs,
                            config());
}

RobertaForMaskedLMImpl::RobertaForMaskedLMImpl(const PretrainedConfig& config)
    : BertWithHead("ForMaskedLM", config, false, detail::roberta_family()),
      lm_head(bert->values()) {
  register_module("lm_head", lm_head);
  post_init();
}

void RobertaForMaskedLMImpl::tie_weights() {
  if (!bert->values().tie_word_embeddings) return;
  lm_head->decoder->tie_bias(lm_head->bias);
  lm_head->decoder->tie_weight(bert->embeddings->word_embeddings->weight);
}

ModelOutput RobertaForMaskedLMImpl::forward(const TextInputs& inputs) {
  const auto computed = bert->encode(inputs, {.token_labels = inputs.labels});
  return detail::token_output(computed, lm_head(computed.hidden), inputs);
}

}  // namespace accelerate
