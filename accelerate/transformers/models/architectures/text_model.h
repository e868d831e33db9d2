// What models of text have in common: their arguments, and the outputs of their heads.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "accelerate/transformers/models/layers/tokens.h"
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
  at::Tensor labels = {};              ///< In the shape that the head asks for.
  at::Tensor start_positions = {};     ///< int64 {B}, for question answering.
  at::Tensor end_positions = {};       ///< int64 {B}
  at::Tensor num_items_in_batch = {};  ///< {}: the divisor of a summed loss.
  /// int {sequences + 1}: where each sequence begins in a batch of one row, for batches without
  /// position_ids. The last entry is T.
  at::Tensor cu_seq_lens_q = {};
  /// For decoders: the tokens of earlier calls, to which the call adds its own.
  std::shared_ptr<KeyValueCache> past_key_values = {};
  /// For decoders: makes a cache if there is none.
  bool use_cache = false;
  /// For causal language models: computes the logits of only this many last tokens; 0: of all.
  std::int64_t logits_to_keep = 0;
  bool output_hidden_states = false;
  bool output_attentions = false;

  /// Takes the tensors from `inputs` by name. Throws UsageError for a tensor that no model takes,
  /// and when there are no input_ids.
  [[nodiscard]] static TextInputs of(const Inputs& inputs);
  /// Returns the names of the tensors that models take.
  [[nodiscard]] static std::vector<std::string> names();
};

namespace detail {

/// What a model without its head has computed from its inputs, in the layout of `tokens`.
struct Computed {
  Tokens tokens;
  at::Tensor hidden = {};  ///< {…, H}, or {B, H} if first_alone.
  bool first_alone = false;
  std::vector<at::Tensor> hidden_states = {};  ///< {…, H} each, if asked for.
  std::vector<at::Tensor> attentions = {};
  std::shared_ptr<KeyValueCache> past_key_values = {};

  /// Returns an output with hidden states, attentions and cache, and nothing else. Must be called
  /// when all layers are computed: throws FileError if a file of mapped weights lost a page.
  [[nodiscard]] ModelOutput output() const;
  /// Returns what was computed for the first token of each row: {B, H}.
  [[nodiscard]] at::Tensor first() const { return first_alone ? hidden : tokens.first(hidden); }
};

/// What a head reads. Padding that a head reads must be computed.
struct HeadNeeds {
  /// Whether it reads the first column, which is padding in rows that are padded on the left.
  bool first_token = false;
  /// Whether it reads only the first column: the last layer then computes no other column.
  bool first_alone = false;
  /// Whether it reads padding too, as a softmax over the tokens of a row does.
  bool all_tokens = false;
  /// Labels, {B, T}. As in Python, a label at padding counts.
  at::Tensor token_labels = {};

  /// Returns the needs of a head that classifies rows by their first token. The last layer then
  /// computes that token alone, unless hidden states or attentions are asked for.
  [[nodiscard]] static HeadNeeds first_of_rows(const TextInputs& inputs) {
    return {.first_token = true,
            .first_alone = !inputs.output_hidden_states && !inputs.output_attentions};
  }
};

/// How a model lays its tokens out.
struct PackingRules {
  bool packs = true;       ///< PreTrainedModel::drops_padding().
  SequenceRule sequences;  ///< Which positions begin a sequence.
};

/// Returns the tokens of `inputs`, in the layout that is cheapest. A cache gets their positions.
/// Throws UsageError for shapes that do not fit.
[[nodiscard]] Tokens tokens_of(const TextInputs& inputs, const HeadNeeds& needs,
                               const PackingRules& rules);

/// Returns positions, int64 {1, T}: from `past`, the number of tokens in a cache, to past + T - 1.
/// In a flattened batch each sequence begins at 0.
[[nodiscard]] at::Tensor default_positions(const TextInputs& inputs, std::int64_t past = 0);

/// Returns `positions`, {1 or B, T}, in the layout of `tokens`.
[[nodiscard]] at::Tensor take_positions(const at::Tensor& positions, const TextInputs& inputs,
                                        const Tokens& tokens);

/// Throws UsageError for ids outside 0 to `count` - 1; `what` names them in the message. Ids on a
/// GPU are left to LibTorch's kernel.
void check_ids(const at::Tensor& ids, std::int64_t count, std::string_view what);
/// Throws UsageError for positions outside 0 to `count` - 1. If position_ids were not given, the
/// message says that the text is too long.
void check_positions(const at::Tensor& positions, std::int64_t count, const TextInputs& inputs);
/// Throws UsageError for arguments that only decoders take; `who` names the encoder.
void check_is_encoding(const TextInputs& inputs, const std::string& who);

/// Throws ConfigError unless there are the two labels of question answering, start and end.
void check_two_labels(const PretrainedConfig& config);

/// Return the outputs of heads, with a loss if labels were given. logits of row_output(): {B, C};
/// of token_output(): {…, C} in the layout of the tokens, with labels {B, T}; of span_output():
/// {…, 2}, scores for where an answer starts and ends; of choice_output(): {B · choices, 1}.
// clang-format off
[[nodiscard]] ModelOutput row_output(const Computed& computed, at::Tensor logits, const TextInputs& inputs, const PretrainedConfig& config);
[[nodiscard]] ModelOutput token_output(const Computed& computed, const at::Tensor& logits, const TextInputs& inputs);
[[nodiscard]] ModelOutput span_output(const Computed& computed, const at::Tensor& logits, const TextInputs& inputs);
[[nodiscard]] ModelOutput choice_output(const Computed& computed, const at::Tensor& logits, std::int64_t choices, const TextInputs& inputs);
// clang-format on

/// Reshapes {B, choices, T} to {B · choices, T}, which a model without its head takes.
[[nodiscard]] TextInputs choices_as_rows(const TextInputs& inputs);

}  // namespace detail

/// A model of text, with or without a head.
class TextModel : public PreTrainedModel {
 public:
  using PreTrainedModel::PreTrainedModel;

  [[nodiscard]] virtual ModelOutput forward(const TextInputs& inputs) = 0;
  [[nodiscard]] ModelOutput forward(const Inputs& inputs) final {
    return forward(TextInputs::of(inputs));
  }
  [[nodiscard]] std::vector<std::string> input_names() const final { return TextInputs::names(); }
  [[nodiscard]] ModelOutput forward(const at::Tensor& input_ids,
                                    const at::Tensor& attention_mask = {}) {
    return forward(TextInputs{.input_ids = input_ids, .attention_mask = attention_mask});
  }

 protected:
  /// As run_layer(), with computed.hidden as input. If the call returns attentions or uses a cache,
  /// backward computes nothing again.
  [[nodiscard]] at::Tensor run_block(
      const torch::nn::Module& block, const detail::Computed& computed, const TextInputs& inputs,
      const std::function<at::Tensor(const at::Tensor&)>& forward) const;
};

}  // namespace accelerate
