// What a model returns.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "accelerate/tensor/nested.h"

namespace accelerate {

class KeyValueCache;

/// A tensor that a model does not make is undefined. B rows, T tokens, H hidden size, C classes, V
/// vocabulary. Values at places that the attention mask leaves out have no meaning; they are zeros
/// where padding was not computed.
struct ModelOutput {
  at::Tensor loss = {};               ///< {}, if labels were given.
  at::Tensor logits = {};             ///< {B, C}, {B, T, C}, {B, T, V} or {B, choices}.
  at::Tensor last_hidden_state = {};  ///< {B, T, H}
  at::Tensor pooler_output = {};      ///< {B, H}
  at::Tensor start_logits = {};       ///< {B, T}
  at::Tensor end_logits = {};         ///< {B, T}
  /// From encoder-decoder models: {B, T of the encoder, H}. The other fields are the decoder's.
  at::Tensor encoder_last_hidden_state = {};
  /// If asked for: the embeddings, then the output of each layer, {B, T, H} each.
  std::vector<at::Tensor> hidden_states = {};
  /// If asked for: the attention weights of each layer, {B, heads, T, T}.
  std::vector<at::Tensor> attentions = {};
  /// From encoder-decoder models, if asked for: as above, of both sides in place of the two above.
  std::vector<at::Tensor> encoder_hidden_states = {}, decoder_hidden_states = {};
  std::vector<at::Tensor> encoder_attentions = {}, decoder_attentions = {};
  /// {B, heads, T of the decoder, T of the encoder}
  std::vector<at::Tensor> cross_attentions = {};
  /// From decoders, if asked for: keys and values of all tokens so far, for the next call. Is not
  /// gathered from other processes.
  std::shared_ptr<KeyValueCache> past_key_values = {};
};

template <typename Fn>
void visit_tensors(ModelOutput& output, Fn&& fn) {
  for (at::Tensor* tensor :
       {&output.loss, &output.logits, &output.last_hidden_state, &output.pooler_output,
        &output.start_logits, &output.end_logits, &output.encoder_last_hidden_state}) {
    if (tensor->defined()) fn(*tensor);
  }
  for (auto* tensors : {&output.hidden_states, &output.attentions, &output.encoder_hidden_states,
                        &output.decoder_hidden_states, &output.encoder_attentions,
                        &output.decoder_attentions, &output.cross_attentions})
    visit_tensors(*tensors, fn);
}

template <>
inline constexpr bool kOnlyTensorsTravel<ModelOutput> = true;

}  // namespace accelerate
