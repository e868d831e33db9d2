// Models of text without a head: what all have in common, then encoders, then decoders.
#pragma once

#include <torch/nn/modules/container/modulelist.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/transformers/models/architectures/text_model.h"
#include "accelerate/transformers/models/layers/attention.h"
#include "accelerate/transformers/models/layers/tokens.h"

namespace accelerate::detail {

/// What a model without its head has computed from its inputs, in the layout of `tokens`.
struct Computed {
  Tokens tokens;
  at::Tensor hidden = {};  ///< {…, H}, or {B, H} if first_alone.
  bool first_alone = false;
  std::vector<at::Tensor> hidden_states = {};  ///< {…, H} each, if asked for.
  std::vector<at::Tensor> attentions = {};
  std::vector<at::Tensor> shared = {};  ///< What all layers read besides, as run_layers() says.
  std::shared_ptr<KeyValueCache> past_key_values = {};

  /// Returns an output with hidden states, attentions and cache, and nothing else. Must be called
  /// when all layers are computed: throws FileError if a file of mapped weights lost a page.
  [[nodiscard]] ModelOutput output() const;
  /// Returns what was computed for the first token of each row: {B, H}.
  [[nodiscard]] at::Tensor first() const { return first_alone ? hidden : tokens.first(hidden); }
  /// Keeps `hidden` for the output if hidden states are asked for.
  void keep_hidden(const TextInputs& inputs) {
    if (inputs.output_hidden_states) hidden_states.push_back(hidden);
  }
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
};

/// A model of text without a head. Its output has last_hidden_state.
class BaseTextModel : public TextModel {
 public:
  using TextModel::TextModel;

  /// Computes what a head reads.
  [[nodiscard]] virtual Computed compute(const TextInputs& inputs, const HeadNeeds& needs) = 0;
  /// Whether an output layer shares the word embeddings.
  [[nodiscard]] virtual bool ties_embeddings() const = 0;
  [[nodiscard]] std::int64_t vocab_size() { return input_embeddings()->weight.size(0); }
  /// Numbers a word: those of its embedding, and those that the layers pass on.
  [[nodiscard]] std::int64_t embedding_size() { return input_embeddings()->weight.size(1); }
  [[nodiscard]] virtual std::int64_t hidden_size() { return embedding_size(); }
  // Heads are initialised as the models below them.
  using TextModel::init_weights;

 protected:
  [[nodiscard]] ModelOutput output_of(const TextInputs& inputs) override;
  /// Returns the tokens of `inputs`, in the layout that is cheapest. A cache gets their positions.
  /// Throws UsageError for shapes that do not fit.
  [[nodiscard]] Tokens tokens_of(const TextInputs& inputs, const HeadNeeds& needs,
                                 SequenceRule sequences) const;
  /// Returns the embeddings of the words, {…, H}. Throws UsageError for ids beyond the vocabulary.
  [[nodiscard]] at::Tensor words_of(const TextInputs& inputs, const Tokens& tokens);

  /// Returns how the layers attend, without a mask. Refers to `computed`.
  [[nodiscard]] AttentionSpec attention_spec(Computed& computed, const TextInputs& inputs) const;

  /// What a layer does to the hidden states, {…, H}. What it captures must live until backward.
  using Layer = std::function<at::Tensor(const at::Tensor&)>;
  /// Computes layer after layer from computed.hidden. With gradient checkpointing, backward
  /// computes them again, unless the call returns attentions or uses a cache.
  void run_layers(Computed& computed, const TextInputs& inputs,
                  const torch::nn::ModuleList& modules,
                  const std::function<Layer(std::size_t index)>& layer_of) const;
  /// Returns the parameters outside the layers that each layer reads.
  [[nodiscard]] virtual std::vector<at::Tensor> shared_parameters() const { return {}; }
  /// What a layer does to the hidden states, the first of `read`, with computed.shared behind them:
  /// results with gradients that all layers read. Empty: the layer is left out.
  using SharingLayer = std::function<at::Tensor(const std::vector<at::Tensor>& read)>;
  /// As run_layers().
  void run_sharing_layers(Computed& computed, const TextInputs& inputs,
                          const torch::nn::ModuleList& modules,
                          const std::function<SharingLayer(std::size_t index)>& layer_of) const;
};

/// Returns position_ids. If they were not given, returns int64 {1, T}: from `past`, the number of
/// tokens in a cache, to past + T - 1. In a flattened batch each sequence begins at 0.
[[nodiscard]] at::Tensor positions_of(const TextInputs& inputs, std::int64_t past = 0);
/// Returns `positions`, {1 or B, T}, in the layout of `tokens`.
[[nodiscard]] at::Tensor take_positions(const at::Tensor& positions, const TextInputs& inputs,
                                        const Tokens& tokens);
/// Throws UsageError for ids outside 0 to `count` - 1; `what` names them in the message. Ids on a
/// GPU are left to LibTorch's kernel.
void check_ids(const at::Tensor& ids, std::int64_t count, std::string_view what);
/// Throws UsageError unless `ids` are int64 or int32, {B, T}, with one or more of each.
void check_input_ids(const at::Tensor& ids);
/// Returns the token_type_ids, {B, T}, zeros if they were not given. Throws UsageError for another
/// shape than that of input_ids, and for types outside 0 to `count` - 1.
[[nodiscard]] at::Tensor token_types_of(const TextInputs& inputs, std::int64_t count);
/// Throws UsageError for positions outside 0 to `count` - 1. If position_ids were not given, the
/// message says that the text is too long. Then no position is greater than `greatest`. If that is
/// below `count`, nothing is read, so that the CPU need not wait for a GPU.
void check_positions(const at::Tensor& positions, std::int64_t greatest, std::int64_t count,
                     const TextInputs& inputs);

/// Registers a module without a forward below `parent`, with the name of Transformers' class, so
/// that parameters get the names of checkpoints: "attention.self.query.weight".
inline torch::nn::Module& part(torch::nn::Module& parent, const std::string& name,
                               const std::string& class_name) {
  return *parent.register_module(name, std::make_shared<torch::nn::Module>(class_name));
}

// --- Encoders: each token sees all tokens of its row ---

/// {…, H} → {…, H}, or {B, H} for the first tokens alone if spec.first_alone.
class EncoderLayer : public torch::nn::Module {
 public:
  using torch::nn::Module::Module;
  [[nodiscard]] virtual at::Tensor forward(const at::Tensor& hidden, const Tokens& tokens,
                                           AttentionSpec spec) = 0;
};

class EncoderModel : public BaseTextModel {
 public:
  using BaseTextModel::BaseTextModel;
  [[nodiscard]] Computed compute(const TextInputs& inputs, const HeadNeeds& needs) override;

 protected:
  /// Returns the input of the first layer, {…, H}.
  [[nodiscard]] virtual at::Tensor embedded(const TextInputs& inputs, const Tokens& tokens) = 0;

  /// Computes layer `index`, as EncoderLayer::forward().
  using Run = std::function<at::Tensor(std::size_t index, const at::Tensor& hidden,
                                       const AttentionSpec& spec)>;
  /// Returns how the layers compute a batch. Its masks are in the specs that the layers get. What
  /// the function captures must live until backward.
  [[nodiscard]] virtual Run run_of(const Computed& computed, const TextInputs& inputs);
  /// Returns what the model makes of the output of the last layer.
  [[nodiscard]] virtual at::Tensor finished(const at::Tensor& hidden) { return hidden; }

  torch::nn::ModuleList layers_;  ///< Of EncoderLayers.
};

// --- Decoders: each token sees itself and the tokens before it, also tokens in a cache ---

class DecoderModel : public BaseTextModel {
 public:
  using BaseTextModel::BaseTextModel;
  /// The longest text that the model is made for, in tokens.
  [[nodiscard]] virtual std::int64_t max_positions() const = 0;
  /// What the scores of words are divided by.
  [[nodiscard]] virtual double logits_scaling() const { return 1; }
  /// The scores of words become cap · tanh(score / cap).
  [[nodiscard]] virtual std::optional<double> logits_softcap() const { return {}; }
  /// The length of a text beyond which the keys of all its tokens change, also of tokens in a cache.
  [[nodiscard]] virtual std::optional<std::int64_t> longest_short_text() const { return {}; }

 protected:
  /// Returns the tokens of `inputs`, with a cache if one is wanted. Computes nothing yet.
  [[nodiscard]] Computed begin(const TextInputs& inputs, const HeadNeeds& needs) const;
};

}  // namespace accelerate::detail
