// A model of text, and what its forward() takes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "accelerate/transformers/models/layers/key_value_cache.h"
#include "accelerate/transformers/models/pre_trained_model.h"

namespace accelerate {

/// The arguments of forward(), by Python's names. B rows, T tokens. An undefined tensor is an
/// argument that was not given.
struct TextInputs {
  at::Tensor input_ids = {};  ///< int64 {B, T}
  /// {B, T}, 0 at padding; this T includes the tokens in past_key_values. Or {B, 1, T or 1, T}:
  /// booleans, true where a token may look, or floats that are added to scores.
  at::Tensor attention_mask = {};
  at::Tensor token_type_ids = {};  ///< int64 {B, T}; zeros if not given.
  /// int64 {B, T} or {1, T}; 0 to T - 1 if not given. Where they begin again within a row, a new
  /// sequence begins: its tokens and the tokens before it do not see each other.
  at::Tensor position_ids = {};
  /// If false, position_ids that begin again tell no sequences apart.
  bool position_ids_tell_sequences = true;
  at::Tensor labels = {};              ///< In the shape that the head asks for.
  at::Tensor start_positions = {};     ///< int64 {B}, for question answering.
  at::Tensor end_positions = {};       ///< int64 {B}
  at::Tensor num_items_in_batch = {};  ///< {}: the divisor of a summed loss.
  /// int {sequences + 1}: where each sequence begins in a batch of one row, for batches without
  /// position_ids. The last entry is T.
  at::Tensor cu_seq_lens_q = {};
  at::Tensor decoder_input_ids = {};       ///< For encoder-decoder models: int64 {B, T}.
  at::Tensor decoder_attention_mask = {};  ///< {B, T}, 0 at padding, of decoder_input_ids.
  /// {B, T, H}: encoder_last_hidden_state of another call with these input_ids. They are then not
  /// encoded, and need not be given.
  at::Tensor encoder_outputs = {};
  /// For decoders: the tokens of earlier calls, to which the call adds its own.
  std::shared_ptr<KeyValueCache> past_key_values = {};
  /// For decoders: makes a cache if there is none.
  bool use_cache = false;
  /// For causal language models: computes the logits of only this many last tokens; 0: of all.
  std::int64_t logits_to_keep = 0;
  bool output_hidden_states = false;
  bool output_attentions = false;

  /// Takes the tensors from `inputs` by name. Throws UsageError for a name that is not one of
  /// `allowed`, and when there are no input_ids.
  [[nodiscard]] static TextInputs of(const Inputs& inputs,
                                     const std::vector<std::string>& allowed = names());
  /// Returns the names of the tensors that models take, besides encoder-decoder models.
  [[nodiscard]] static std::vector<std::string> names();
};

/// A model of text, with or without a head.
class TextModel : public PreTrainedModel {
 public:
  using PreTrainedModel::PreTrainedModel;

  [[nodiscard]] ModelOutput forward(const TextInputs& inputs);
  [[nodiscard]] ModelOutput forward(const Inputs& inputs) final {
    return forward(TextInputs::of(inputs, input_names()));
  }
  [[nodiscard]] std::vector<std::string> input_names() const override {
    return TextInputs::names();
  }
  [[nodiscard]] ModelOutput forward(const at::Tensor& input_ids,
                                    const at::Tensor& attention_mask = {}) {
    return forward(TextInputs{.input_ids = input_ids, .attention_mask = attention_mask});
  }

 protected:
  /// What forward() returns.
  [[nodiscard]] virtual ModelOutput output_of(const TextInputs& inputs) = 0;
};

}  // namespace accelerate
