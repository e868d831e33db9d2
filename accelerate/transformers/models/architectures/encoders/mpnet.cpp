// MPNet: BERT's layers without types of tokens. What is added to scores for the distance of two tokens
// is the same in all layers. Modules have the names that they have in Transformers. Source: Song et al.
// 2020; `modeling_mpnet.py` of Transformers.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/log.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/where.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/normalization.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "accelerate/transformers/models/architectures/heads.h"
#include "accelerate/transformers/models/layers/dropout.h"
#include "accelerate/transformers/models/layers/norm_of_sum.h"

namespace accelerate::detail {
namespace {

constexpr std::int64_t kMPNetPadding = 1;   // Whatever pad_token_id says.
constexpr std::int64_t kMPNetBuckets = 32;  // Those that are used, however many there are.

// The keys of config.json, with Transformers' defaults.
struct MPNetConfig {
  std::int64_t vocab_size = 30527;
  std::int64_t hidden_size = 768;
  std::int64_t num_hidden_layers = 12;
  std::int64_t num_attention_heads = 12;
  std::int64_t intermediate_size = 3072;
  std::string hidden_act = "gelu";
  double hidden_dropout_prob = 0.1;
  double attention_probs_dropout_prob = 0.1;
  std::int64_t max_position_embeddings = 512;
  double initializer_range = 0.02;
  double layer_norm_eps = 1e-12;
  std::int64_t relative_attention_num_buckets = kMPNetBuckets;
  bool tie_word_embeddings = true;

  template <typename Self, typename Visit>
  static void visit(Self& self, const Visit& visit) {
    constexpr Range<std::int64_t> kBehindPadding{kMPNetPadding + 1, limits::kWords.most},
        kBuckets{kMPNetBuckets, limits::kWords.most};
    visit("vocab_size", self.vocab_size, kBehindPadding);
    visit("hidden_size", self.hidden_size, limits::kWidth);
    visit("num_hidden_layers", self.num_hidden_layers, limits::kLayers);
    visit("num_attention_heads", self.num_attention_heads, limits::kHeads);
    visit("intermediate_size", self.intermediate_size, limits::kInner);
    visit("hidden_act", self.hidden_act);
    visit("hidden_dropout_prob", self.hidden_dropout_prob, limits::kShare);
    visit("attention_probs_dropout_prob", self.attention_probs_dropout_prob, limits::kShare);
    visit("max_position_embeddings", self.max_position_embeddings, kBehindPadding);
    visit("initializer_range", self.initializer_range, limits::kDeviation);
    visit("layer_norm_eps", self.layer_norm_eps, limits::kEpsilon);
    visit("relative_attention_num_buckets", self.relative_attention_num_buckets, kBuckets);
    visit("tie_word_embeddings", self.tie_word_embeddings);
  }
};

MPNetConfig read_mpnet(const PretrainedConfig& config) {
  check_common_keys(config);
  const auto values = read_config<MPNetConfig>(config);
  check_activation(config, "hidden_act");
  check_heads(config, {"num_attention_heads", values.num_attention_heads, "hidden_size",
                       values.hidden_size});
  check_padding_row(config, config.get<std::int64_t>("pad_token_id"), "vocab_size",
                    values.vocab_size);
  return values;
}

torch::nn::LayerNorm mpnet_norm(const MPNetConfig& config) {
  return torch::nn::LayerNorm(
      torch::nn::LayerNormOptions({config.hidden_size}).eps(config.layer_norm_eps));
}

// Returns {length, length}: which embedding the distance of two tokens has. Near distances have their
// own, far ones share those of steps of a logarithm, and the two directions have a half each.
at::Tensor buckets_of(std::int64_t length, c10::Device device) {
  constexpr std::int64_t kHalf = kMPNetBuckets / 2, kExact = kHalf / 2, kFarthest = 128;
  const at::Tensor place = at::arange(length, at::TensorOptions(at::kLong).device(device));
  const at::Tensor behind = place.unsqueeze(1) - place.unsqueeze(0), distance = behind.abs();
  const double range = std::log(static_cast<double>(kFarthest) / static_cast<double>(kExact));
  const at::Tensor far =
      (at::log(distance.to(at::kFloat) / kExact) / range * (kHalf - kExact)).to(at::kLong) + kExact;
  return (behind < 0).to(at::kLong) * kHalf +
         at::where(distance < kExact, distance, far.clamp_max(kHalf - 1));
}

// Attention and a feed-forward network, each added to its input and normed.
class MPNetLayer final : public EncoderLayer {
 public:
  explicit MPNetLayer(const MPNetConfig& config)
      : EncoderLayer("MPNetLayer"),
        heads_(config.num_attention_heads),
        dropout_(config.hidden_dropout_prob),
        attention_dropout_(config.attention_probs_dropout_prob),
        activation_(activation_of(config.hidden_act)),
        query_(config.hidden_size, config.hidden_size),
        key_(config.hidden_size, config.hidden_size),
        value_(config.hidden_size, config.hidden_size),
        attention_output_(config.hidden_size, config.hidden_size),
        intermediate_(config.hidden_size, config.intermediate_size),
        output_(config.intermediate_size, config.hidden_size),
        attention_norm_(mpnet_norm(config)),
        output_norm_(mpnet_norm(config)) {
    auto& attention = part(*this, "attention", "MPNetAttention");
    auto& self = part(attention, "attn", "MPNetSelfAttention");
    self.register_module("q", query_);
    self.register_module("k", key_);
    self.register_module("v", value_);
    self.register_module("o", attention_output_);
    attention.register_module("LayerNorm", attention_norm_);
    part(*this, "intermediate", "MPNetIntermediate").register_module("dense", intermediate_);
    auto& output = part(*this, "output", "MPNetOutput");
    output.register_module("dense", output_);
    output.register_module("LayerNorm", output_norm_);
  }

  at::Tensor forward(const at::Tensor& hidden, const Tokens& tokens, AttentionSpec spec) override {
    const auto heads_of = [&](const at::Tensor& all) { return all.unflatten(-1, {heads_, -1}); };
    const double dropout = is_training() ? dropout_ : 0;
    spec.dropout = is_training() ? attention_dropout_ : 0;
    const at::Tensor read = spec.first_alone ? tokens.first(hidden) : hidden;
    const at::Tensor context = attention(heads_of(query_(read)), heads_of(key_(hidden)),
                                         heads_of(value_(hidden)), tokens, spec);
    const at::Tensor attended =
        norm_of_sum(attention_norm_, attention_output_(context), read, dropout);
    const at::Tensor fed = output_(activation_(intermediate_(attended)));
    return norm_of_sum(output_norm_, fed, attended, dropout);
  }

 private:
  std::int64_t heads_;
  double dropout_, attention_dropout_;
  Activation activation_;
  Linear query_, key_, value_, attention_output_, intermediate_, output_;
  torch::nn::LayerNorm attention_norm_, output_norm_;
};

// The encoder alone. Its output has last_hidden_state and, with a pooler, pooler_output.
// token_type_ids are not read, as in Python.
class MPNetModel final : public EncoderModel {
 public:
  MPNetModel(const PretrainedConfig& config, bool pools);
  [[nodiscard]] const MPNetConfig& values() const { return values_; }
  [[nodiscard]] bool ties_embeddings() const override { return values_.tie_word_embeddings; }
  [[nodiscard]] torch::nn::Embedding input_embeddings() override { return words_; }
  [[nodiscard]] std::vector<std::string> no_split_modules() const override {
    return {"MPNetLayer"};
  }
  [[nodiscard]] std::vector<std::string> python_no_split_modules() const override { return {}; }
  [[nodiscard]] std::vector<PythonBuffer> python_buffers() const override {
    return {{"embeddings.position_ids", at::kLong, values_.max_position_embeddings}};
  }
  [[nodiscard]] ParallelPlan parallel_plan() const override;
  // tanh(W · first token + b): {B, H}.
  [[nodiscard]] at::Tensor pool(const at::Tensor& first) { return at::tanh(pooler_(first)); }

 protected:
  [[nodiscard]] ModelOutput output_of(const TextInputs& inputs) override;
  [[nodiscard]] at::Tensor embedded(const TextInputs& inputs, const Tokens& tokens) override;
  [[nodiscard]] Run run_of(const Computed& computed, const TextInputs& inputs) override;
  [[nodiscard]] std::vector<at::Tensor> shared_parameters() const override {
    return {distances_->weight};
  }

 private:
  MPNetConfig values_;
  torch::nn::Embedding words_, positions_, distances_ = nullptr;
  torch::nn::LayerNorm norm_;
  Linear pooler_ = nullptr;
};

MPNetModel::MPNetModel(const PretrainedConfig& config, bool pools)
    : EncoderModel("MPNetModel", config, "mpnet"),
      values_(read_mpnet(config)),
      words_(torch::nn::EmbeddingOptions(values_.vocab_size, values_.hidden_size)
                 .padding_idx(kMPNetPadding)),
      positions_(torch::nn::EmbeddingOptions(values_.max_position_embeddings, values_.hidden_size)
                     .padding_idx(kMPNetPadding)),
      norm_(mpnet_norm(values_)) {
  auto& embeddings = part(*this, "embeddings", "MPNetEmbeddings");
  embeddings.register_module("word_embeddings", words_);
  embeddings.register_module("position_embeddings", positions_);
  embeddings.register_module("LayerNorm", norm_);
  for (std::int64_t i = 0; i < values_.num_hidden_layers; ++i)
    layers_->push_back(std::make_shared<MPNetLayer>(values_));
  auto& encoder = part(*this, "encoder", "MPNetEncoder");
  encoder.register_module("layer", layers_);
  distances_ = encoder.register_module(
      "relative_attention_bias",
      torch::nn::Embedding(values_.relative_attention_num_buckets, values_.num_attention_heads));
  if (pools) {
    pooler_ = Linear(values_.hidden_size, values_.hidden_size);
    part(*this, "pooler", "MPNetPooler").register_module("dense", pooler_);
  }
  post_init();
}

ParallelPlan MPNetModel::parallel_plan() const {
  using enum ParallelPlan::Cut;
  // What is added to scores has a column for each head.
  ParallelPlan plan{
      .tensor_parallel = {{"encoder.layer.*.intermediate.dense", colwise},
                          {"encoder.layer.*.output.dense", rowwise}},
      .pipeline = {{"embeddings", "encoder.relative_attention_bias"}, {"encoder.layer.*"}}};
  if (!pooler_.is_empty()) plan.pipeline.push_back({"pooler"});
  return plan;
}

at::Tensor MPNetModel::embedded(const TextInputs& inputs, const Tokens& tokens) {
  at::Tensor positions = positions_of(inputs);
  if (!inputs.position_ids.defined()) {
    const at::Tensor counts = inputs.input_ids.ne(kMPNetPadding).to(at::kLong);
    positions = inputs.cu_seq_lens_q.defined() ? positions + (kMPNetPadding + 1)
                                               : counts.cumsum(1) * counts + kMPNetPadding;
  }
  const at::Tensor words = words_of(inputs, tokens);
  check_positions(positions, kMPNetPadding + inputs.input_ids.size(1),
                  values_.max_position_embeddings, inputs);
  const at::Tensor sum = words + positions_(take_positions(positions, inputs, tokens));
  return dropout_of(norm_(sum), values_.hidden_dropout_prob, is_training());
}

EncoderModel::Run MPNetModel::run_of(const Computed& computed, const TextInputs& /*inputs*/) {
  const Tokens& tokens = computed.tokens;
  const std::int64_t longest =
      tokens.is_packed() ? std::ranges::max(tokens.lengths()) : tokens.length();
  // Each layer looks the distances up by itself, as with gradient checkpointing it is alone.
  return [layers = layers_, tokens, table = distances_,
          buckets = buckets_of(longest, computed.hidden.device())](
             std::size_t i, const at::Tensor& hidden, AttentionSpec spec) {
    const at::Tensor bias = table->weight.index_select(0, buckets.flatten())
                                .unflatten(0, buckets.sizes())
                                .permute({2, 0, 1})
                                .unsqueeze(0);
    spec.bias_of = [bias](const at::Tensor& query, const at::Tensor& key) {
      return bias.narrow(2, 0, query.size(2)).narrow(3, 0, key.size(2)).to(query.scalar_type());
    };
    return layers->ptr<EncoderLayer>(i)->forward(hidden, tokens, spec);
  };
}

ModelOutput MPNetModel::output_of(const TextInputs& inputs) {
  const auto computed = compute(inputs, {.first_token = !pooler_.is_empty()});
  ModelOutput output = computed.output();
  output.last_hidden_state = computed.tokens.restore(computed.hidden);
  if (!pooler_.is_empty()) output.pooler_output = pool(computed.first());
  return output;
}

// --- Heads ---

BelowHead below_head(const std::string& head, const std::shared_ptr<MPNetModel>& mpnet) {
  return {"MPNet" + head, mpnet, "mpnet"};
}

class MPNetForSequenceClassification final : public FirstTokenHead {
 public:
  explicit MPNetForSequenceClassification(const std::shared_ptr<MPNetModel>& mpnet)
      : FirstTokenHead(below_head("ForSequenceClassification", mpnet),
                       Task::sequence_classification),
        dropout_(mpnet->values().hidden_dropout_prob),
        dense_(mpnet->hidden_size(), mpnet->hidden_size()),
        out_proj_(mpnet->hidden_size(), scores()) {
    auto& classifier = part(*this, "classifier", "MPNetClassificationHead");
    classifier.register_module("dense", dense_);
    classifier.register_module("out_proj", out_proj_);
    post_init();
  }

 protected:
  at::Tensor scores_of(const at::Tensor& first) override {
    const auto dropped = [&](const at::Tensor& x) {
      return dropout_of(x, dropout_, is_training());
    };
    return out_proj_(dropped(at::tanh(dense_(dropped(first)))));
  }

 private:
  double dropout_;
  Linear dense_, out_proj_;
};

class MPNetForMultipleChoice final : public FirstTokenHead {
 public:
  explicit MPNetForMultipleChoice(const std::shared_ptr<MPNetModel>& mpnet)
      : FirstTokenHead(below_head("ForMultipleChoice", mpnet), Task::multiple_choice),
        mpnet_(*mpnet),
        classifier_(mpnet->hidden_size(), scores()) {
    register_module("classifier", classifier_);
    post_init();
  }

 protected:
  at::Tensor scores_of(const at::Tensor& first) override {
    const double dropout = mpnet_.values().hidden_dropout_prob;
    return classifier_(dropout_of(mpnet_.pool(first), dropout, is_training()));
  }

 private:
  MPNetModel& mpnet_;
  Linear classifier_;
};

class MPNetForMaskedLM final : public MaskedLM {
 public:
  explicit MPNetForMaskedLM(const std::shared_ptr<MPNetModel>& mpnet)
      : MaskedLM(below_head("ForMaskedLM", mpnet), activation_of("gelu"),
                 mpnet->values().layer_norm_eps) {
    auto& head = part(*this, "lm_head", "MPNetLMHead");
    head.register_module("dense", dense);
    head.register_module("layer_norm", norm);
    head.register_module("decoder", decoder);
    register_bias(head);
    post_init();
  }
};

std::shared_ptr<MPNetModel> pooling_mpnet(const PretrainedConfig& config) {
  return std::make_shared<MPNetModel>(config, /*pools=*/true);
}

std::shared_ptr<MPNetModel> bare_mpnet(const PretrainedConfig& config) {
  return std::make_shared<MPNetModel>(config, /*pools=*/false);
}

std::shared_ptr<PreTrainedModel> mpnet_for_tokens(const PretrainedConfig& config) {
  const auto mpnet = bare_mpnet(config);
  return std::make_shared<TokenClassification>(below_head("ForTokenClassification", mpnet),
                                               "classifier", mpnet->values().hidden_dropout_prob);
}

std::shared_ptr<PreTrainedModel> mpnet_for_answers(const PretrainedConfig& config) {
  const auto mpnet = bare_mpnet(config);
  check_two_labels(config);
  return std::make_shared<QuestionAnswering>(below_head("ForQuestionAnswering", mpnet));
}

}  // namespace

Architecture mpnet() {
  using enum Task;
  return {
      .model_type = "mpnet",
      .classes = {{base, pooling_mpnet},
                  {sequence_classification, with_head<MPNetForSequenceClassification>(bare_mpnet)},
                  {multiple_choice, with_head<MPNetForMultipleChoice>(pooling_mpnet)},
                  {masked_lm, with_head<MPNetForMaskedLM>(bare_mpnet)},
                  {token_classification, mpnet_for_tokens},
                  {question_answering, mpnet_for_answers}},
      .keys = keys_of<MPNetConfig>()};
}

}  // namespace accelerate::detail
