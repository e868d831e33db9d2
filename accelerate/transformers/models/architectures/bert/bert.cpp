#include "accelerate/transformers/models/architectures/bert/bert.h"

#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros_like.h>

#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/transformers/models/layers/dropout.h"
#include "accelerate/transformers/models/layers/norm_of_sum.h"

namespace accelerate::detail {
namespace {

torch::nn::LayerNorm bert_norm(const BertConfig& config, std::int64_t size) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({size}).eps(config.layer_norm_eps));
}

BertConfig read_bert(const PretrainedConfig& config, const BertFamily& family) {
  for (const char* key : {"is_decoder", "add_cross_attention"}) {
    if (config.get<bool>(key, false))
      throw ConfigError(config.name() + ": '" + key + "' is true; allowed is an encoder");
  }
  check_common_keys(config);
  // Transformers 5 computes absolute positions whatever the file says: not what was trained.
  const char* const positions = "position_embedding_type";
  if (config.json_of(positions) != "null" && config.json_of(positions) != "\"absolute\"")
    config.refuse(positions, "absolute");
  auto values = read_config(config, family.defaults);
  if (!family.reads_embedding_size || !values.embedding_size)
    values.embedding_size = values.hidden_size;
  check_activation(config, "hidden_act");
  check_heads(config, {"num_attention_heads", values.num_attention_heads, "hidden_size",
                       values.hidden_size});
  check_padding_row(config, values.pad_token_id, "vocab_size", values.vocab_size);
  if (!family.counts_behind_padding) return values;
  if (!values.pad_token_id)
    throw ConfigError(config.name() + ": there is no pad_token_id, behind which positions begin");
  check_padding_row(config, values.pad_token_id, "max_position_embeddings",
                    values.max_position_embeddings);
  return values;
}

// Attention and a feed-forward network, each added to its input and normed.
class BertLayer final : public EncoderLayer {
 public:
  BertLayer(const BertConfig& config, const std::string& class_prefix)
      : EncoderLayer(class_prefix + "Layer"),
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
        attention_norm_(bert_norm(config, config.hidden_size)),
        output_norm_(bert_norm(config, config.hidden_size)) {
    auto& attention = part(*this, "attention", class_prefix + "Attention");
    auto& self = part(attention, "self", class_prefix + "SelfAttention");
    self.register_module("query", query_);
    self.register_module("key", key_);
    self.register_module("value", value_);
    auto& attention_output = part(attention, "output", class_prefix + "SelfOutput");
    attention_output.register_module("dense", attention_output_);
    attention_output.register_module("LayerNorm", attention_norm_);
    part(*this, "intermediate", class_prefix + "Intermediate")
        .register_module("dense", intermediate_);
    auto& output = part(*this, "output", class_prefix + "Output");
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

}  // namespace

BertModel::BertModel(const PretrainedConfig& config, const BertFamily& family, bool pools)
    : EncoderModel(family.class_prefix + "Model", config, family.base_model_prefix),
      values_(read_bert(config, family)),
      family_(family),
      words_(torch::nn::EmbeddingOptions(values_.vocab_size, *values_.embedding_size)
                 .padding_idx(values_.pad_token_id)),
      positions_(
          torch::nn::EmbeddingOptions(values_.max_position_embeddings, *values_.embedding_size)
              .padding_idx(family.counts_behind_padding ? values_.pad_token_id : std::nullopt)),
      types_(values_.type_vocab_size, *values_.embedding_size),
      norm_(bert_norm(values_, *values_.embedding_size)) {
  auto& embeddings = part(*this, "embeddings", family.class_prefix + "Embeddings");
  embeddings.register_module("word_embeddings", words_);
  // In Transformers' order, in which random values are drawn.
  if (!family.counts_behind_padding) embeddings.register_module("position_embeddings", positions_);
  embeddings.register_module("token_type_embeddings", types_);
  embeddings.register_module("LayerNorm", norm_);
  if (family.counts_behind_padding) embeddings.register_module("position_embeddings", positions_);
  if (*values_.embedding_size != values_.hidden_size)
    projection_ =
        register_module("embeddings_project", Linear(*values_.embedding_size, values_.hidden_size));
  for (std::int64_t i = 0; i < values_.num_hidden_layers; ++i)
    layers_->push_back(std::make_shared<BertLayer>(values_, family.class_prefix));
  part(*this, "encoder", family.class_prefix + "Encoder").register_module("layer", layers_);
  if (pools) {
    pooler_ = Linear(values_.hidden_size, values_.hidden_size);
    part(*this, "pooler", family.class_prefix + "Pooler").register_module("dense", pooler_);
  }
  post_init();
}

std::vector<std::string> BertModel::no_split_modules() const {
  return {family_.class_prefix + "Embeddings", family_.class_prefix + "Layer"};
}

ParallelPlan BertModel::parallel_plan() const {
  using enum ParallelPlan::Cut;
  ParallelPlan plan{.tensor_parallel = {{"encoder.layer.*.attention.self.query", colwise},
                                        {"encoder.layer.*.attention.self.key", colwise},
                                        {"encoder.layer.*.attention.self.value", colwise},
                                        {"encoder.layer.*.attention.output.dense", rowwise},
                                        {"encoder.layer.*.intermediate.dense", colwise},
                                        {"encoder.layer.*.output.dense", rowwise}},
                    .pipeline = {{"embeddings"}, {"encoder.layer.*"}}};
  if (!projection_.is_empty()) plan.pipeline.front().emplace_back("embeddings_project");
  if (!pooler_.is_empty()) plan.pipeline.push_back({"pooler"});
  return plan;
}

std::vector<PythonBuffer> BertModel::python_buffers() const {
  return {{"embeddings.position_ids", at::kLong, values_.max_position_embeddings},
          {"embeddings.token_type_ids", at::kLong, values_.max_position_embeddings}};
}

at::Tensor BertModel::places_of(const TextInputs& inputs) const {
  if (inputs.position_ids.defined() || !family_.counts_behind_padding) return positions_of(inputs);
  const std::int64_t padding = *values_.pad_token_id;
  if (inputs.cu_seq_lens_q.defined()) return positions_of(inputs) + (padding + 1);
  const at::Tensor counts = inputs.input_ids.ne(padding).to(at::kLong);
  return counts.cumsum(1) * counts + padding;
}

at::Tensor BertModel::embedded(const TextInputs& inputs, const Tokens& tokens) {
  const at::Tensor positions = places_of(inputs);
  const at::Tensor words = words_of(inputs, tokens);
  const std::int64_t before = family_.counts_behind_padding ? *values_.pad_token_id + 1 : 0;
  check_positions(positions, before + inputs.input_ids.size(1) - 1, values_.max_position_embeddings,
                  inputs);
  const at::Tensor types = token_types_of(inputs, values_.type_vocab_size);
  const at::Tensor sum =
      words + types_(tokens.take(types)) + positions_(take_positions(positions, inputs, tokens));
  const at::Tensor dropped = dropout_of(norm_(sum), values_.hidden_dropout_prob, is_training());
  return projection_.is_empty() ? dropped : projection_(dropped);
}

at::Tensor BertModel::pool(const at::Tensor& first) {
  return at::tanh(pooler_(first));
}

ModelOutput BertModel::output_of(const TextInputs& inputs) {
  const auto computed = compute(inputs, {.first_token = !pooler_.is_empty()});
  const at::Tensor pooled = pooler_.is_empty() ? at::Tensor() : pool(computed.first());
  ModelOutput output = computed.output();
  output.last_hidden_state = computed.tokens.restore(computed.hidden);
  output.pooler_output = pooled;
  return output;
}

// --- Heads ---

BelowHead below_head(const std::string& head, const std::shared_ptr<BertModel>& bert) {
  const BertFamily& family = bert->family();
  return {family.class_prefix + head, bert, family.base_model_prefix, family.makes_head_first};
}

DenseFirstTokenHead::DenseFirstTokenHead(const std::shared_ptr<BertModel>& bert,
                                         Activation activation)
    : FirstTokenHead(below_head("ForSequenceClassification", bert), Task::sequence_classification),
      dropout_(bert->dropout_of_head()),
      activation_(activation),
      dense_(bert->hidden_size(), bert->hidden_size()),
      out_proj_(bert->hidden_size(), scores()) {
  auto& classifier = part(*this, "classifier", bert->family().class_prefix + "ClassificationHead");
  classifier.register_module("dense", dense_);
  classifier.register_module("out_proj", out_proj_);
  post_init();
}

at::Tensor DenseFirstTokenHead::scores_of(const at::Tensor& first) {
  const auto dropped = [&](const at::Tensor& x) { return dropout_of(x, dropout_, is_training()); };
  return out_proj_(dropped(activation_(dense_(dropped(first)))));
}

namespace {

// Reads the pooled first token of each row.
class BertFirstTokenHead final : public FirstTokenHead {
 public:
  BertFirstTokenHead(const std::shared_ptr<BertModel>& bert, const char* head, Task task)
      : FirstTokenHead(below_head(head, bert), task),
        bert_(*bert),
        classifier_(bert->hidden_size(), scores()) {
    register_module("classifier", classifier_);
    post_init();
  }
  at::Tensor scores_of(const at::Tensor& first) override {
    return classifier_(dropout_of(bert_.pool(first), bert_.dropout_of_head(), is_training()));
  }

 private:
  BertModel& bert_;
  Linear classifier_;
};

class BertForMaskedLM final : public MaskedLM {
 public:
  explicit BertForMaskedLM(const std::shared_ptr<BertModel>& bert)
      : MaskedLM(below_head("ForMaskedLM", bert), activation_of(bert->values().hidden_act),
                 bert->values().layer_norm_eps) {
    auto& predictions =
        part(part(*this, "cls", "BertOnlyMLMHead"), "predictions", "BertLMPredictionHead");
    auto& transform = part(predictions, "transform", "BertPredictionHeadTransform");
    transform.register_module("dense", dense);
    transform.register_module("LayerNorm", norm);
    predictions.register_module("decoder", decoder);
    register_bias(predictions);
    post_init();
  }
};

std::shared_ptr<PreTrainedModel> bert_for_tokens(const std::shared_ptr<BertModel>& bert) {
  return std::make_shared<TokenClassification>(below_head("ForTokenClassification", bert),
                                               "classifier", bert->dropout_of_head());
}

std::shared_ptr<PreTrainedModel> bert_for_answers(const std::shared_ptr<BertModel>& bert) {
  check_two_labels(bert->config());
  return std::make_shared<QuestionAnswering>(below_head("ForQuestionAnswering", bert));
}

}  // namespace

Architecture bert_like(std::string_view model_type, const BertFamily& family) {
  using enum Task;
  const MakeBert pooling{family, true}, bare{family, false};
  return {.model_type = model_type,
          .classes = {{base, pooling},
                      {sequence_classification,
                       with_head<BertFirstTokenHead>(pooling, "ForSequenceClassification",
                                                     sequence_classification)},
                      {multiple_choice, with_head<BertFirstTokenHead>(pooling, "ForMultipleChoice",
                                                                      multiple_choice)},
                      {masked_lm, with_head<BertForMaskedLM>(bare)},
                      {token_classification,
                       [=](const auto& config) { return bert_for_tokens(bare(config)); }},
                      {question_answering,
                       [=](const auto& config) { return bert_for_answers(bare(config)); }}},
          .keys = keys_of<BertConfig>()};
}

Architecture bert() {
  return bert_like("bert", {});
}

}  // namespace accelerate::detail
