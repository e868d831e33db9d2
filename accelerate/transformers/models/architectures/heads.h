// Heads of models of text.
#pragma once

#include <torch/nn/modules/normalization.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/transformers/models/architecture.h"
#include "accelerate/transformers/models/architectures/base_models.h"
#include "accelerate/transformers/models/layers/activations.h"
#include "accelerate/transformers/models/layers/linear.h"

namespace accelerate::detail {

/// What some models have between a model without a head and the layer that gives scores: {…, H} →
/// {…, H}.
class HeadTransform : public torch::nn::Module {
 public:
  using torch::nn::Module::Module;
  [[nodiscard]] virtual at::Tensor forward(const at::Tensor& hidden) = 0;
};

/// What the constructor of a head takes.
struct BelowHead {
  std::string class_name;               ///< Of the model with its head: "BertForMaskedLM".
  std::shared_ptr<BaseTextModel> base;  ///< Has the configuration of both.
  std::string prefix;                   ///< The name of `base` within the model: "bert".
  /// Whether Transformers makes the head before `base`: random weights are drawn in this order, and
  /// tied weights have the first name.
  bool makes_head_first = false;
  std::shared_ptr<HeadTransform> transform = nullptr;  ///< Null for most; registered as "head".
};

/// Returns a function that makes a `Head`, whose constructor takes `make_base(config)` and
/// `arguments`.
template <typename Head, typename MakeBase, typename... Arguments>
[[nodiscard]] MakeModel with_head(const MakeBase& make_base, const Arguments&... arguments) {
  return [=](const PretrainedConfig& config) {
    return std::make_shared<Head>(make_base(config), arguments...);
  };
}

class TextModelWithHead : public TextModel {
 public:
  [[nodiscard]] std::vector<std::string> no_split_modules() const override {
    return base_->no_split_modules();
  }
  [[nodiscard]] bool ignores(const std::string& name) const override {
    return base_->ignores(name);
  }
  [[nodiscard]] torch::nn::Embedding input_embeddings() override {
    return base_->input_embeddings();
  }
  void resize_offsets(std::int64_t tokens) override { base_->resize_offsets(tokens); }
  [[nodiscard]] std::vector<std::string> input_names() const override {
    return base_->input_names();
  }
  [[nodiscard]] at::Tensor prepare_decoder_input_ids_from_labels(
      const at::Tensor& labels) const override {
    return base_->prepare_decoder_input_ids_from_labels(labels);
  }
  [[nodiscard]] BaseTextModel& base() const { return *base_; }

 protected:
  explicit TextModelWithHead(BelowHead below);
  /// To be called by a head's constructor when all layers are registered.
  void post_init();
  void init_weights(torch::nn::Module& module, WeightInitialiser& initialiser) override {
    base_->init_weights(module, initialiser);
  }
  /// Returns what the transform of BelowHead makes of `hidden`; `hidden` if there is none.
  [[nodiscard]] at::Tensor transformed(const at::Tensor& hidden) {
    return transform_ == nullptr ? hidden : transform_->forward(hidden);
  }

 private:
  std::shared_ptr<BaseTextModel> base_;
  std::shared_ptr<HeadTransform> transform_;
  bool makes_head_first_;
};

/// labels: int64 {B, T}, -100 where a token has none. logits: {B, T, C}.
class TokenClassification final : public TextModelWithHead {
 public:
  /// `head`: the name of the last layer. `dropout`: of the hidden states before it.
  TokenClassification(BelowHead below, const std::string& head, double dropout);

 protected:
  [[nodiscard]] ModelOutput output_of(const TextInputs& inputs) override;

 private:
  double dropout_;
  Linear head_;
};

/// start_positions, end_positions: int64 {B}. start_logits, end_logits: {B, T}.
class QuestionAnswering final : public TextModelWithHead {
 public:
  /// `head`: the name of the last layer.
  explicit QuestionAnswering(BelowHead below, double dropout = 0,
                             const std::string& head = "qa_outputs");

 protected:
  [[nodiscard]] ModelOutput output_of(const TextInputs& inputs) override;

 private:
  double dropout_;
  Linear qa_outputs_;
};

/// Throws ConfigError unless there are the two labels of question answering, start and end.
void check_two_labels(const PretrainedConfig& config);

// --- Of encoders ---

/// Reads the first token of each row. For Task::sequence_classification: labels: int64 {B}, or
/// targets of a regression; logits: {B, C}. For Task::multiple_choice: input_ids, attention_mask
/// and so on: {B, choices, T}; labels: int64 {B}; logits: {B, choices}.
class FirstTokenHead : public TextModelWithHead {
 protected:
  [[nodiscard]] ModelOutput output_of(const TextInputs& inputs) override;
  FirstTokenHead(BelowHead below, Task task) : TextModelWithHead(std::move(below)), task_(task) {}
  /// How many numbers scores_of() returns for a row.
  [[nodiscard]] std::int64_t scores() const {
    return task_ == Task::multiple_choice ? 1 : config().num_labels();
  }
  /// Whether pooled() returns the first token of each row.
  [[nodiscard]] virtual bool reads_first_token() const { return true; }
  /// Returns what scores_of() reads: {B, H}. `inputs` has two dimensions.
  [[nodiscard]] virtual at::Tensor pooled(const Computed& computed, const TextInputs& /*inputs*/) {
    return computed.first();
  }
  /// Returns the loss of Task::sequence_classification. logits: {B, C}.
  [[nodiscard]] virtual at::Tensor loss_of(const at::Tensor& logits,
                                           const TextInputs& inputs) const;
  /// first: {B, H}. Returns {B, scores}.
  [[nodiscard]] virtual at::Tensor scores_of(const at::Tensor& first) = 0;

 private:
  Task task_;
};

/// Scores the words that may stand at a token's place. labels: int64 {B, T}, -100 where no word was
/// masked. logits: {B, T, V}. A subclass registers the layers under the names of its checkpoints.
class MaskedLM : public TextModelWithHead {
 public:
  void tie_weights() override;
  [[nodiscard]] Linear output_embeddings() override { return decoder; }
  [[nodiscard]] at::Tensor second_output_bias() override { return bias_; }

 protected:
  [[nodiscard]] ModelOutput output_of(const TextInputs& inputs) override;
  MaskedLM(BelowHead below, Activation activation, double epsilon);
  /// For a model whose `transform` does what `dense` and `norm` do.
  MaskedLM(BelowHead below, bool has_bias);
  /// hidden: {…, H}. Returns {…, V}.
  [[nodiscard]] at::Tensor scores_of(const at::Tensor& hidden);
  /// Whether the loss reads logits of 16 bits in fp32. In Transformers BERT's does not.
  [[nodiscard]] virtual bool has_loss_in_fp32() const { return false; }
  /// Registers the decoder's bias under a second name below `parent`. Without tied embeddings it is
  /// a tensor that nothing reads.
  void register_bias(torch::nn::Module& parent);

  Linear dense = nullptr, decoder;
  torch::nn::LayerNorm norm = nullptr;

 private:
  Activation activation_ = nullptr;
  at::Tensor bias_;
};

// --- Of decoders ---

/// labels: int64 {B, T}, each token's own id, or -100 for no label. The model compares a label with
/// what the token before it predicts. logits: {B, T or logits_to_keep, V}.
class CausalLM final : public TextModelWithHead {
 public:
  CausalLM(BelowHead below, const DecoderModel& decoder);
  void tie_weights() override;
  [[nodiscard]] ParallelPlan parallel_plan() const override;
  [[nodiscard]] Linear output_embeddings() override { return lm_head_; }
  /// The longest text that the model is made for, in tokens.
  [[nodiscard]] std::int64_t max_positions() const { return max_positions_; }
  /// As DecoderModel::longest_short_text().
  [[nodiscard]] std::optional<std::int64_t> longest_short_text() const {
    return longest_short_text_;
  }

 protected:
  [[nodiscard]] ModelOutput output_of(const TextInputs& inputs) override;

 private:
  std::int64_t max_positions_;
  std::optional<std::int64_t> longest_short_text_;
  double logits_scaling_;
  std::optional<double> logits_softcap_;
  Linear lm_head_;
};

/// Classifies a row by its last token that is not pad_token_id. labels: int64 {B}, or targets of a
/// regression. logits: {B, C}. Throws UsageError for several rows if there is no pad_token_id.
class LastTokenClassification final : public TextModelWithHead {
 public:
  explicit LastTokenClassification(BelowHead below);

 protected:
  [[nodiscard]] ModelOutput output_of(const TextInputs& inputs) override;

 private:
  Linear score_;
};

/// What the classes of a decoder are called, and the names that their checkpoints have.
struct DecoderNames {
  std::string prefix;  ///< Of the classes: "Llama".
  std::string causal_lm = "ForCausalLM";
  std::string base = "model";  ///< The decoder below a head.
  std::string base_of_question_answering = "model";
  std::string head_of_tokens = "score";
};
/// Returns the classes of a decoder: all heads above, and `make` without a head.
[[nodiscard]] std::map<Task, MakeModel> decoder_classes(
    const DecoderNames& names,
    const std::function<std::shared_ptr<DecoderModel>(const PretrainedConfig&)>& make);

}  // namespace accelerate::detail
