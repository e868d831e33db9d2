// What models of text have in common: their arguments, and what heads make of what layers made.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "accelerate/models/layers/tokens.h"
#include "accelerate/models/pre_trained_model.h"

namespace accelerate {

/// Arguments by the names of Python's forward. B rows, T tokens. What is undefined is not given.
struct TextInputs {
  at::Tensor input_ids = {};  ///< int64 {B, T}
  /// {B, T}, 0 at padding, T counting those in past_key_values too; or {B, 1, T or 1, T}, true
  /// where a token may look or, of floats, added to scores.
  at::Tensor attention_mask = {};
  at::Tensor token_type_ids = {};      ///< int64 {B, T}; zeros if not given.
  at::Tensor position_ids = {};        ///< int64 {B, T} or {1, T}; 0 to T - 1 if not given.
  at::Tensor labels = {};              ///< Of the head.
  at::Tensor start_positions = {};     ///< int64 {B}, of question answering.
  at::Tensor end_positions = {};       ///< int64 {B}
  at::Tensor num_items_in_batch = {};  ///< {}: what a summed loss is divided by.
  /// int {sequences + 1}: where each sequence begins in a batch of one row, as
  /// DataCollatorWithFlattening makes it; the last is T.
  at::Tensor cu_seq_lens_q = {};
  /// Of decoders: tokens of earlier calls, to which the call adds its own.
  std::shared_ptr<KeyValueCache> past_key_values = {};
  /// Of decoders: makes a cache if there is none.
  bool use_cache = false;
  /// Of causal language models: logits of the last so many tokens alone; 0: of all.
  std::int64_t logits_to_keep = 0;
  bool output_hidden_states = false;
  bool output_attentions = false;

  /// Throws UsageError for a tensor that no model takes, and when there are no input_ids.
  [[nodiscard]] static TextInputs of(const Inputs& inputs);
  /// The tensors that models take.
  [[nodiscard]] static std::vector<std::string> names();
};

namespace detail {

/// What a model without its head made of its inputs, in the layout of `tokens`.
struct Computed {
  Tokens tokens;
  at::Tensor hidden = {};  ///< {…, H}, or {B, H} of first tokens alone.
  bool first_alone = false;
  std::vector<at::Tensor> hidden_states = {};  ///< {…, H} each, if asked for.
  std::vector<at::Tensor> attentions = {};
  std::shared_ptr<KeyValueCache> past_key_values = {};

  /// With hidden states, attentions and cache, and nothing else. To be called when all is computed:
  /// throws FileError where weights were lost meanwhile.
  [[nodiscard]] ModelOutput output() const;
  /// What was made of the first token of each row: {B, H}.
  [[nodiscard]] at::Tensor first() const { return first_alone ? hidden : tokens.first(hidden); }
};

/// What a head reads, which may keep padding in the computation.
struct HeadNeeds {
  /// The first column, which has padding where rows are filled up on the left.
  bool first_token = false;
  /// Nothing but the first column: the last layer then computes no other.
  bool first_alone = false;
  /// Padding too, as a softmax over the tokens of a row does.
  bool all_tokens = false;
  /// {B, T}: a label at padding counts, as in Python.
  at::Tensor token_labels = {};

  /// Of a head that classifies rows by their first token. Layers then compute for it alone where
  /// nothing else is asked for.
  [[nodiscard]] static HeadNeeds first_of_rows(const TextInputs& inputs) {
    return {.first_token = true,
            .first_alone = !inputs.output_hidden_states && !inputs.output_attentions};
  }
};

[[nodiscard]] Tokens tokens_of(const TextInputs& inputs, const HeadNeeds& needs,
                               bool drops_padding);

/// 0 to T - 1, behind the `past` tokens of a cache: int64 {1, T}. Of a flattened batch, from 0 in
/// each sequence.
[[nodiscard]] at::Tensor default_positions(const TextInputs& inputs, std::int64_t past = 0);

/// `positions`, {1 or B, T}, in the layout of `tokens`.
[[nodiscard]] at::Tensor take_positions(const at::Tensor& positions, const TextInputs& inputs,
                                        const Tokens& tokens);

/// Throws UsageError for ids outside 0 to `count` - 1; `what` says whose. On a GPU LibTorch's
/// kernel finds them.
void check_ids(const at::Tensor& ids, std::int64_t count, std::string_view what);
/// The same of positions, 0 to `count` - 1; says so when it is the text that is too long.
void check_positions(const at::Tensor& positions, std::int64_t count, const TextInputs& inputs);
/// Throws UsageError for arguments of decoders, `who` being an encoder.
void check_is_encoding(const TextInputs& inputs, const std::string& who);

/// Throws ConfigError unless a head of question answering has its two labels, start and end.
void check_two_labels(const PretrainedConfig& config);

/// Outputs of heads: logits {B, C} of rows; {…, C} of tokens in their layout, labels {B, T}; {…, 2}
/// of tokens, where an answer starts and ends; {B · choices, 1} of choices.
// clang-format off
[[nodiscard]] ModelOutput row_output(const Computed& computed, at::Tensor logits, const TextInputs& inputs, const PretrainedConfig& config);
[[nodiscard]] ModelOutput token_output(const Computed& computed, const at::Tensor& logits, const TextInputs& inputs);
[[nodiscard]] ModelOutput span_output(const Computed& computed, const at::Tensor& logits, const TextInputs& inputs);
[[nodiscard]] ModelOutput choice_output(const Computed& computed, const at::Tensor& logits, std::int64_t choices, const TextInputs& inputs);
// clang-format on

/// {B, choices, T} as {B · choices, T}: what a model without its head takes.
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
  /// As run_layer(), of what was computed so far; a call that keeps more than hidden states keeps
  /// all.
  [[nodiscard]] at::Tensor run_block(
      const torch::nn::Module& block, const detail::Computed& computed, const TextInputs& inputs,
      const std::function<at::Tensor(const at::Tensor&)>& forward) const;
};

}  // namespace accelerate
