// DeBERTa v2 and v3: BERT's layers, whose scores also depend on how far apart two tokens are. Modules
// have the names that they have in Transformers. Source: He et al. 2021, He et al. 2023;
// `modeling_deberta_v2.py` of Transformers.
#include <ATen/TensorOperators.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/normalization.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/transformers/models/architectures/heads.h"
#include "accelerate/transformers/models/layers/distance_scores.h"
#include "accelerate/transformers/models/layers/dropout.h"
#include "accelerate/transformers/models/layers/norm_of_sum.h"
#include "accelerate/transformers/models/losses.h"

namespace accelerate::detail {
namespace {

// The keys of config.json, with Transformers' defaults.
struct DebertaConfig {
  std::int64_t vocab_size = 128100;
  std::int64_t hidden_size = 1536;
  std::int64_t num_hidden_layers = 24;
  std::int64_t num_attention_heads = 24;
  std::int64_t intermediate_size = 6144;
  std::string hidden_act = "gelu";
  double hidden_dropout_prob = 0.1;
  double attention_probs_dropout_prob = 0.1;
  std::int64_t max_position_embeddings = 512;
  std::int64_t type_vocab_size = 0;
  double initializer_range = 0.02;
  double layer_norm_eps = 1e-7;
  bool relative_attention = false;
  std::int64_t max_relative_positions = -1;  // Below 1: max_position_embeddings.
  std::int64_t position_buckets = -1;        // Above 0: far distances share embeddings.
  bool share_att_key = false;                // Distances have no projections of their own.
  std::string norm_rel_ebd = "none";
  std::optional<std::int64_t> pad_token_id = 0;
  bool position_biased_input = true;  // Positions are added to words too.
  double pooler_dropout = 0;
  std::string pooler_hidden_act = "gelu";
  std::optional<double> cls_dropout = {};                // hidden_dropout_prob if not given.
  std::optional<std::int64_t> embedding_size = {};       // hidden_size if not given.
  std::optional<std::int64_t> attention_head_size = {};  // hidden_size / heads if not given.
  bool legacy = true;                                    // The head for masked words is BERT's.
  bool tie_word_embeddings = true;
  // From pos_att_type, which is a list or a text: which scores distances have.
  bool queries_ask_distances = false;  // c2p
  bool distances_ask_keys = false;     // p2c

  template <typename Self, typename Visit>
  static void visit(Self& self, const Visit& visit) {
    visit("vocab_size", self.vocab_size, limits::kWords);
    visit("hidden_size", self.hidden_size, limits::kWidth);
    visit("num_hidden_layers", self.num_hidden_layers, limits::kLayers);
    visit("num_attention_heads", self.num_attention_heads, limits::kHeads);
    visit("intermediate_size", self.intermediate_size, limits::kInner);
    visit("hidden_act", self.hidden_act);
    visit("hidden_dropout_prob", self.hidden_dropout_prob, limits::kShare);
    visit("attention_probs_dropout_prob", self.attention_probs_dropout_prob, limits::kShare);
    visit("max_position_embeddings", self.max_position_embeddings, limits::kWords);
    visit("type_vocab_size", self.type_vocab_size, Range<std::int64_t>{0, limits::kWords.most});
    visit("initializer_range", self.initializer_range, limits::kDeviation);
    visit("layer_norm_eps", self.layer_norm_eps, limits::kEpsilon);
    visit("relative_attention", self.relative_attention);
    visit("max_relative_positions", self.max_relative_positions, limits::kTokenId);
    visit("position_buckets", self.position_buckets, limits::kTokenId);
    visit("share_att_key", self.share_att_key);
    visit("norm_rel_ebd", self.norm_rel_ebd);
    visit("pad_token_id", self.pad_token_id, limits::kTokenId);
    visit("position_biased_input", self.position_biased_input);
    visit("pooler_dropout", self.pooler_dropout, limits::kShare);
    visit("pooler_hidden_act", self.pooler_hidden_act);
    visit("cls_dropout", self.cls_dropout, limits::kShare);
    visit("embedding_size", self.embedding_size, limits::kWidth);
    visit("attention_head_size", self.attention_head_size, limits::kWidth);
    visit("legacy", self.legacy);
    visit("tie_word_embeddings", self.tie_word_embeddings);
  }

  [[nodiscard]] Distances distances() const {
    return {.span = position_buckets > 0 ? position_buckets : max_relative_positions,
            .farthest = max_relative_positions,
            .shares_far_ones = position_buckets > 0};
  }
  [[nodiscard]] double dropout_of_head() const { return cls_dropout.value_or(hidden_dropout_prob); }
};

void read_pos_att_type(const PretrainedConfig& config, DebertaConfig& values) {
  const char* const key = "pos_att_type";
  if (config.json_of(key) == "null") return;
  const bool is_list = config.json_of(key).starts_with('[');
  for (const std::string& given : is_list ? config.get<std::vector<std::string>>(key, {})
                                          : split(config.get<std::string>(key, ""), '|')) {
    const std::string type = lower(trim(given));
    if (type != "c2p" && type != "p2c") config.refuse(key, "c2p, p2c, p2c|c2p, or a list of them");
    (type == "c2p" ? values.queries_ask_distances : values.distances_ask_keys) = true;
  }
}

DebertaConfig read_deberta(const PretrainedConfig& config) {
  check_common_keys(config);
  auto values = read_config<DebertaConfig>(config);
  read_pos_att_type(config, values);
  check_activation(config, "hidden_act");
  check_activation(config, "pooler_hidden_act");
  check_padding_row(config, values.pad_token_id, "vocab_size", values.vocab_size);
  if (!values.attention_head_size) {
    check_heads(config, {"num_attention_heads", values.num_attention_heads, "hidden_size",
                         values.hidden_size});
    values.attention_head_size = values.hidden_size / values.num_attention_heads;
  }
  if (*values.attention_head_size * values.num_attention_heads != values.hidden_size) {
    config.refuse("attention_head_size",
                  "'hidden_size' divided by 'num_attention_heads', as in all known models");
  }
  if (config.get<std::int64_t>("conv_kernel_size", 0) > 0)
    config.refuse("conv_kernel_size", "0: a model without a convolution, as DeBERTa v3");
  if (config.get<std::int64_t>("pooler_hidden_size", values.hidden_size) != values.hidden_size)
    config.refuse("pooler_hidden_size", "'hidden_size'");
  values.embedding_size = values.embedding_size.value_or(values.hidden_size);
  if (!values.legacy && *values.embedding_size != values.hidden_size)
    config.refuse("embedding_size", "'hidden_size', as 'legacy' is false");
  if (values.max_relative_positions < 1)
    values.max_relative_positions = values.max_position_embeddings;
  if (values.relative_attention && values.distances().span > limits::kWords.most)
    config.refuse("max_relative_positions", in_words(limits::kWords));
  if (values.position_buckets == 1 ||
      (values.position_buckets > 0 &&
       values.max_relative_positions <= values.position_buckets / 2 + 1))
    config.refuse("position_buckets", "-1, or 2 and more, and less than twice the positions");
  return values;
}

torch::nn::LayerNorm deberta_norm(const DebertaConfig& config) {
  return torch::nn::LayerNorm(
      torch::nn::LayerNormOptions({config.hidden_size}).eps(config.layer_norm_eps));
}

// --- The model ---

// Attention and a feed-forward network, each added to its input and normed.
class DebertaLayer final : public torch::nn::Module {
 public:
  explicit DebertaLayer(const DebertaConfig& config);

  // hidden: {…, H}. distances: the embeddings of rows_of_distances(), {D, H}, or undefined. Returns
  // the same shape, or {B, H} if spec.first_alone.
  at::Tensor forward(const at::Tensor& hidden, const Tokens& tokens, const at::Tensor& distances,
                     AttentionSpec spec);

 private:
  // Returns the scores of distances.
  [[nodiscard]] DistanceScores scores_of(const at::Tensor& distances, double scale);

  std::int64_t heads_;
  double dropout_, attention_dropout_;
  bool queries_ask_distances_, distances_ask_keys_;
  Activation activation_;
  Linear query_, key_, value_, pos_key_ = nullptr, pos_query_ = nullptr, attention_output_,
                               intermediate_ = nullptr, output_ = nullptr;
  torch::nn::LayerNorm attention_norm_, output_norm_;
};

DebertaLayer::DebertaLayer(const DebertaConfig& config)
    : torch::nn::Module("DebertaV2Layer"),
      heads_(config.num_attention_heads),
      dropout_(config.hidden_dropout_prob),
      attention_dropout_(config.attention_probs_dropout_prob),
      queries_ask_distances_(config.queries_ask_distances),
      distances_ask_keys_(config.distances_ask_keys),
      activation_(activation_of(config.hidden_act)),
      query_(config.hidden_size, config.hidden_size),
      key_(config.hidden_size, config.hidden_size),
      value_(config.hidden_size, config.hidden_size),
      attention_output_(nullptr),
      attention_norm_(deberta_norm(config)),
      output_norm_(deberta_norm(config)) {
  auto& attention = part(*this, "attention", "DebertaV2Attention");
  auto& self = part(attention, "self", "DisentangledSelfAttention");
  self.register_module("query_proj", query_);
  self.register_module("key_proj", key_);
  self.register_module("value_proj", value_);
  // Made here, in Transformers' order, in which random values are drawn.
  const auto linear = [](torch::nn::Module& parent, const char* name, std::int64_t in,
                         std::int64_t out) {
    return parent.register_module(name, Linear(in, out));
  };
  const std::int64_t width = config.hidden_size;
  const bool has_own = config.relative_attention && !config.share_att_key;
  if (has_own && queries_ask_distances_) pos_key_ = linear(self, "pos_key_proj", width, width);
  if (has_own && distances_ask_keys_) pos_query_ = linear(self, "pos_query_proj", width, width);
  auto& attention_output = part(attention, "output", "DebertaV2SelfOutput");
  attention_output_ = linear(attention_output, "dense", width, width);
  attention_output.register_module("LayerNorm", attention_norm_);
  auto& intermediate = part(*this, "intermediate", "DebertaV2Intermediate");
  intermediate_ = linear(intermediate, "dense", width, config.intermediate_size);
  auto& output = part(*this, "output", "DebertaV2Output");
  output_ = linear(output, "dense", config.intermediate_size, width);
  output.register_module("LayerNorm", output_norm_);
}

DistanceScores DebertaLayer::scores_of(const at::Tensor& distances, double scale) {
  DistanceScores scores{.longest = (distances.size(0) + 1) / 2, .scale = scale};
  const at::Tensor dropped = dropout_of(distances, dropout_, is_training());
  const auto heads_of = [&](Linear& own, Linear& shared) {
    return (own.is_empty() ? shared : own)(dropped).unflatten(-1, {heads_, -1}).permute({1, 2, 0});
  };
  if (queries_ask_distances_) scores.keys = heads_of(pos_key_, key_).flip(-1);
  if (distances_ask_keys_) scores.queries = heads_of(pos_query_, query_);
  return scores;
}

at::Tensor DebertaLayer::forward(const at::Tensor& hidden, const Tokens& tokens,
                                 const at::Tensor& distances, AttentionSpec spec) {
  const auto heads_of = [&](const at::Tensor& all) { return all.unflatten(-1, {heads_, -1}); };
  const double dropout = is_training() ? dropout_ : 0;
  spec.dropout = is_training() ? attention_dropout_ : 0;
  const at::Tensor read = spec.first_alone ? tokens.first(hidden) : hidden;
  const at::Tensor query = heads_of(query_(read));
  const int summands = 1 + int{queries_ask_distances_} + int{distances_ask_keys_};
  spec.scale = 1 / std::sqrt(static_cast<double>(query.size(-1) * summands));
  if (distances.defined() && summands > 1) {
    spec.bias_of = scores_of(distances, *spec.scale);
  } else if (spec.mask.values.defined()) {
    // LibTorch's kernels give zeros to padding, which here sees all places.
    spec.bias_of = [](const at::Tensor& asking, const at::Tensor& /*key*/) {
      return at::zeros({}, asking.options());
    };
  }
  const at::Tensor context =
      attention(query, heads_of(key_(hidden)), heads_of(value_(hidden)), tokens, spec);
  const at::Tensor attended =
      norm_of_sum(attention_norm_, attention_output_(context), read, dropout);
  const at::Tensor fed = output_(activation_(intermediate_(attended)));
  return norm_of_sum(output_norm_, fed, attended, dropout);
}

// Returns booleans {rows, T} where padding is computed. As in Python, padding begins as zeros and sees
// all places alike: some heads read it.
at::Tensor counts_of(const TextInputs& inputs, const Tokens& tokens) {
  const at::Tensor& mask = inputs.attention_mask;
  const bool is_computed = !tokens.is_packed() && mask.defined() && mask.dim() == 2;
  return is_computed && tokens.mask().defined() ? mask.to(tokens.mask().device(), at::kBool)
                                                : at::Tensor();
}

// Returns what embeddings are multiplied by: the attention mask, in the layout of `tokens`; undefined
// where that changes nothing. A mask may have other numbers than 0 and 1, and attention then takes all
// but 0 alike, as in Python.
at::Tensor weights_of(const TextInputs& inputs, const Tokens& tokens,
                      const at::Tensor& embeddings) {
  const at::Tensor& mask = inputs.attention_mask;
  const bool has_weights = mask.defined() && mask.dim() == 2 && mask.scalar_type() != at::kBool &&
                           !mask.ne(0).to(mask.scalar_type()).equal(mask);
  return has_weights ? tokens.take(mask.to(embeddings.device(), embeddings.scalar_type()))
                     : counts_of(inputs, tokens);
}

// The encoder alone.
class DebertaModel final : public EncoderModel {
 public:
  explicit DebertaModel(const PretrainedConfig& config);
  [[nodiscard]] const DebertaConfig& values() const { return values_; }
  [[nodiscard]] bool ties_embeddings() const override { return values_.tie_word_embeddings; }
  [[nodiscard]] torch::nn::Embedding input_embeddings() override { return words_; }
  [[nodiscard]] std::int64_t hidden_size() override { return values_.hidden_size; }
  [[nodiscard]] std::vector<std::string> no_split_modules() const override {
    return {"DebertaV2Layer"};
  }
  [[nodiscard]] std::vector<std::string> python_no_split_modules() const override { return {}; }
  [[nodiscard]] std::vector<PythonBuffer> python_buffers() const override {
    return {{"embeddings.position_ids", at::kLong, values_.max_position_embeddings}};
  }
  [[nodiscard]] ParallelPlan parallel_plan() const override;
  [[nodiscard]] bool ignores(const std::string& name) const override {
    // Files of models that were trained with more heads.
    return name.find("position_embeddings") != std::string::npos ||
           name.starts_with("mask_predictions") || name.starts_with("lm_predictions") ||
           EncoderModel::ignores(name);
  }

 protected:
  [[nodiscard]] at::Tensor embedded(const TextInputs& inputs, const Tokens& tokens) override;
  [[nodiscard]] Run run_of(const Computed& computed, const TextInputs& inputs) override;
  [[nodiscard]] std::vector<at::Tensor> shared_parameters() const override;

 private:
  DebertaConfig values_;
  torch::nn::Embedding words_, positions_ = nullptr, types_ = nullptr, distances_ = nullptr;
  Linear projection_ = nullptr;
  torch::nn::LayerNorm norm_, norm_of_distances_ = nullptr;
};

DebertaModel::DebertaModel(const PretrainedConfig& config)
    : EncoderModel("DebertaV2Model", config, "deberta"),
      values_(read_deberta(config)),
      words_(torch::nn::EmbeddingOptions(values_.vocab_size, *values_.embedding_size)
                 .padding_idx(values_.pad_token_id)),
      norm_(deberta_norm(values_)) {
  const std::int64_t width = *values_.embedding_size;
  auto& embeddings = part(*this, "embeddings", "DebertaV2Embeddings");
  const auto table = [](torch::nn::Module& parent, const char* name, std::int64_t rows,
                        std::int64_t size) {
    return parent.register_module(name, torch::nn::Embedding(rows, size));
  };
  embeddings.register_module("word_embeddings", words_);
  if (values_.position_biased_input)
    positions_ = table(embeddings, "position_embeddings", values_.max_position_embeddings, width);
  if (values_.type_vocab_size > 0)
    types_ = table(embeddings, "token_type_embeddings", values_.type_vocab_size, width);
  if (width != values_.hidden_size) {
    projection_ = embeddings.register_module(
        "embed_proj", Linear(width, values_.hidden_size, /*has_bias=*/false));
  }
  embeddings.register_module("LayerNorm", norm_);
  for (std::int64_t i = 0; i < values_.num_hidden_layers; ++i)
    layers_->push_back(std::make_shared<DebertaLayer>(values_));
  auto& encoder = part(*this, "encoder", "DebertaV2Encoder");
  encoder.register_module("layer", layers_);
  if (values_.relative_attention)
    distances_ =
        table(encoder, "rel_embeddings", 2 * values_.distances().span, values_.hidden_size);
  for (const std::string& word : split(values_.norm_rel_ebd, '|')) {
    if (lower(trim(word)) == "layer_norm" && norm_of_distances_.is_empty())
      norm_of_distances_ = encoder.register_module("LayerNorm", deberta_norm(values_));
  }
  post_init();
}

ParallelPlan DebertaModel::parallel_plan() const {
  using enum ParallelPlan::Cut;
  const std::string self = "encoder.layer.*.attention.self.";
  ParallelPlan plan{.tensor_parallel = {{self + "query_proj", colwise},
                                        {self + "key_proj", colwise},
                                        {self + "value_proj", colwise}},
                    .pipeline = {{"embeddings"}, {"encoder.layer.*"}}};
  const bool has_own = values_.relative_attention && !values_.share_att_key;
  if (has_own && values_.queries_ask_distances)
    plan.tensor_parallel.push_back({self + "pos_key_proj", colwise});
  if (has_own && values_.distances_ask_keys)
    plan.tensor_parallel.push_back({self + "pos_query_proj", colwise});
  plan.tensor_parallel.insert(plan.tensor_parallel.end(),
                              {{"encoder.layer.*.attention.output.dense", rowwise},
                               {"encoder.layer.*.intermediate.dense", colwise},
                               {"encoder.layer.*.output.dense", rowwise}});
  if (!distances_.is_empty()) plan.pipeline.front().emplace_back("encoder.rel_embeddings");
  if (!norm_of_distances_.is_empty()) plan.pipeline.front().emplace_back("encoder.LayerNorm");
  return plan;
}

at::Tensor DebertaModel::embedded(const TextInputs& inputs, const Tokens& tokens) {
  const at::Tensor positions = positions_of(inputs);
  at::Tensor sum = words_of(inputs, tokens);
  if (!positions_.is_empty()) {
    check_positions(positions, inputs.input_ids.size(1) - 1, values_.max_position_embeddings,
                    inputs);
    sum = sum + positions_(take_positions(positions, inputs, tokens));
  }
  if (!types_.is_empty()) {
    sum = sum + types_(tokens.take(token_types_of(inputs, values_.type_vocab_size)));
  }
  if (!projection_.is_empty()) sum = projection_(sum);
  at::Tensor normed = norm_(sum);
  if (const at::Tensor weights = weights_of(inputs, tokens, normed); weights.defined())
    normed = normed * weights.unsqueeze(-1);
  return dropout_of(normed, values_.hidden_dropout_prob, is_training());
}

EncoderModel::Run DebertaModel::run_of(const Computed& computed, const TextInputs& inputs) {
  const Tokens& tokens = computed.tokens;
  AttentionMask mask{.values = tokens.mask()};
  if (const at::Tensor counts = counts_of(inputs, tokens); counts.defined())
    mask.values = mask.values.logical_and(counts.unsqueeze(1).unsqueeze(-1));
  at::Tensor rows;
  if (!distances_.is_empty()) {
    const std::int64_t longest =
        tokens.is_packed() ? std::ranges::max(tokens.lengths()) : tokens.length();
    rows = rows_of_distances(values_.distances(), longest, computed.hidden.device());
  }
  // Each layer norms the distances by itself, as with gradient checkpointing it is alone.
  return [layers = layers_, tokens, mask, rows, table = distances_, norm = norm_of_distances_](
             std::size_t i, const at::Tensor& hidden, AttentionSpec spec) mutable {
    spec.mask = mask;
    at::Tensor distances;
    if (rows.defined()) {
      distances = norm.is_empty() ? table->weight : norm(table->weight);
      distances = distances.index_select(0, rows);
    }
    return layers->ptr<DebertaLayer>(i)->forward(hidden, tokens, distances, spec);
  };
}

std::vector<at::Tensor> DebertaModel::shared_parameters() const {
  std::vector<at::Tensor> shared;
  if (!distances_.is_empty()) shared.push_back(distances_->weight);
  if (!norm_of_distances_.is_empty())
    shared.insert(shared.end(), {norm_of_distances_->weight, norm_of_distances_->bias});
  return shared;
}

// --- Heads ---

BelowHead below_head(const std::string& head, const std::shared_ptr<DebertaModel>& deberta) {
  return {"DebertaV2" + head, deberta, "deberta"};
}

class DebertaFirstTokenHead final : public FirstTokenHead {
 public:
  DebertaFirstTokenHead(const std::shared_ptr<DebertaModel>& deberta, const char* head, Task task)
      : FirstTokenHead(below_head(head, deberta), task),
        values_(deberta->values()),
        activation_(activation_of(values_.pooler_hidden_act)),
        pooler_(deberta->hidden_size(), deberta->hidden_size()),
        classifier_(deberta->hidden_size(), scores()) {
    part(*this, "pooler", "ContextPooler").register_module("dense", pooler_);
    register_module("classifier", classifier_);
    post_init();
  }

 protected:
  at::Tensor scores_of(const at::Tensor& first) override {
    const at::Tensor pooled =
        activation_(pooler_(dropout_of(first, values_.pooler_dropout, is_training())));
    return classifier_(dropout_of(pooled, values_.dropout_of_head(), is_training()));
  }
  // Without problem_type, several labels of a row are probabilities, and a single label below 0
  // counts as none. Source: `DebertaV2ForSequenceClassification` of Transformers.
  at::Tensor loss_of(const at::Tensor& logits, const TextInputs& inputs) const override {
    const at::Tensor& labels = inputs.labels;
    if (!config().get<std::string>("problem_type", "").empty() || logits.size(1) == 1)
      return FirstTokenHead::loss_of(logits, inputs);
    if (labels.sizes() == logits.sizes())
      return -(at::log_softmax(logits, -1) * labels).sum(-1).mean();
    const at::Tensor all = labels.flatten().to(at::kLong), kept = all.ge(0).nonzero().squeeze(1);
    if (all.size(0) != logits.size(0)) return FirstTokenHead::loss_of(logits, inputs);
    if (kept.numel() == 0) return logits.sum() * 0;
    return cross_entropy(in_fp32(logits.index_select(0, kept)), all.index_select(0, kept),
                         inputs.num_items_in_batch);
  }

 private:
  const DebertaConfig& values_;
  Activation activation_;
  Linear pooler_, classifier_;
};

class DebertaForMaskedLM final : public MaskedLM {
 public:
  explicit DebertaForMaskedLM(const std::shared_ptr<DebertaModel>& deberta)
      : MaskedLM(below_head("ForMaskedLM", deberta), activation_of(deberta->values().hidden_act),
                 deberta->values().layer_norm_eps) {
    auto& predictions = part(part(*this, "cls", "LegacyDebertaV2OnlyMLMHead"), "predictions",
                             "LegacyDebertaV2LMPredictionHead");
    auto& transform = part(predictions, "transform", "LegacyDebertaV2PredictionHeadTransform");
    transform.register_module("dense", dense);
    transform.register_module("LayerNorm", norm);
    predictions.register_module("decoder", decoder);
    register_bias(predictions);
    post_init();
  }
};

std::shared_ptr<DebertaModel> make_deberta(const PretrainedConfig& config) {
  return std::make_shared<DebertaModel>(config);
}

std::shared_ptr<PreTrainedModel> deberta_for_masked_lm(const PretrainedConfig& config) {
  const auto deberta = make_deberta(config);
  if (!deberta->values().legacy) config.refuse("legacy", "true for this task");
  return std::make_shared<DebertaForMaskedLM>(deberta);
}

std::shared_ptr<PreTrainedModel> deberta_for_tokens(const PretrainedConfig& config) {
  const auto deberta = make_deberta(config);
  return std::make_shared<TokenClassification>(below_head("ForTokenClassification", deberta),
                                               "classifier", deberta->values().hidden_dropout_prob);
}

std::shared_ptr<PreTrainedModel> deberta_for_answers(const PretrainedConfig& config) {
  const auto deberta = make_deberta(config);
  check_two_labels(config);
  return std::make_shared<QuestionAnswering>(below_head("ForQuestionAnswering", deberta));
}

}  // namespace

Architecture deberta_v2() {
  using enum Task;
  return {.model_type = "deberta-v2",
          .classes = {{base, make_deberta},
                      {sequence_classification,
                       with_head<DebertaFirstTokenHead>(make_deberta, "ForSequenceClassification",
                                                        sequence_classification)},
                      {multiple_choice, with_head<DebertaFirstTokenHead>(
                                            make_deberta, "ForMultipleChoice", multiple_choice)},
                      {masked_lm, deberta_for_masked_lm},
                      {token_classification, deberta_for_tokens},
                      {question_answering, deberta_for_answers}},
          .keys = keys_of<DebertaConfig>()};
}

}  // namespace accelerate::detail
