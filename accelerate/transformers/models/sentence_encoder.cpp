#include "accelerate/transformers/models/sentence_encoder.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/formats/documents/json.h"
#include "accelerate/transformers/datasets/collators/data_collators.h"
#include "accelerate/transformers/hub/download.h"

namespace accelerate {
namespace {

// --- Folders of sentence-transformers ---

// The word of pooling_mode, and the older key that is true instead.
struct PoolingName {
  std::string_view word, older_key;
  SentencePooling pooling;
};
constexpr std::array<PoolingName, 3> kPoolings{{
    {"cls", "pooling_mode_cls_token", SentencePooling::cls},
    {"mean", "pooling_mode_mean_tokens", SentencePooling::mean},
    {"max", "pooling_mode_max_tokens", SentencePooling::max},
}};

SentencePooling read_pooling(const PretrainedConfig& values) {
  const char *const key = "pooling_mode", *const allowed = "one of cls, mean and max";
  if (values.json_of(key) != "null") {
    const auto word = values.get_if<std::string>(key);
    const auto known = std::ranges::find(kPoolings, word.value_or(""), &PoolingName::word);
    if (known == kPoolings.end()) values.refuse(key, allowed);
    return known->pooling;
  }
  std::optional<SentencePooling> found;
  for (const std::string& older : values.keys()) {
    if (!older.starts_with("pooling_mode_") || !values.get<bool>(older, false)) continue;
    const auto known = std::ranges::find(kPoolings, older, &PoolingName::older_key);
    if (known == kPoolings.end() || found)
      values.refuse(older, std::string("false, beside ") + allowed);
    found = known->pooling;
  }
  return found.value_or(SentencePooling::mean);
}

// What modules.json says.
struct Modules {
  std::string path_of_model;
  SentenceOptions options = {};
};

Modules read_modules(const std::string& name_or_folder, const HubOptions& hub) {
  Modules modules;
  const auto file = fetch_file(name_or_folder, "modules.json", hub);
  if (!file) return modules;
  const Node list =
      read_json(real_file_system().read(*file, DocumentLimits().max_bytes), file->string());
  for (const Node& module : list.items) {
    const auto text_of = [&](const char* key) {
      const Node* found = module.find(key);
      return found == nullptr ? std::string() : found->text;
    };
    const std::string type = text_of("type"), path = text_of("path");
    if (type.ends_with(".Transformer")) {
      modules.path_of_model = path;
    } else if (type.ends_with(".Pooling")) {
      modules.options.pooling = read_pooling(
          PretrainedConfig::from_pretrained(name_or_folder, hub, path + "/config.json"));
    } else if (type.ends_with(".Normalize")) {
      modules.options.normalizes = true;
    } else {
      throw ConfigError(file->string() + ": the type of a module is '" + type +
                        "'; allowed are Transformer, Pooling and Normalize");
    }
  }
  return modules;
}

// Returns the most tokens of a text that sentence_bert_config.json allows.
std::optional<std::size_t> read_max_length(const std::string& folder, const HubOptions& hub) {
  const char* const name = "sentence_bert_config.json";
  if (!fetch_file(folder, name, hub)) return std::nullopt;
  const auto values = PretrainedConfig::from_pretrained(folder, hub, name);
  if (values.get<bool>("do_lower_case", false))
    values.refuse("do_lower_case", "false: the tokenizer changes letters by itself");
  const auto length = values.get<std::int64_t>("max_seq_length");
  if (!length) return std::nullopt;
  if (*length < 1) values.refuse("max_seq_length", "1 or more, or null");
  return static_cast<std::size_t>(*length);
}

// --- Texts ---

// Evaluates a model, and lets it train again if it did.
class EvaluationScope {
 public:
  explicit EvaluationScope(PreTrainedModel& model) : model_(model), trains_(model.is_training()) {
    model.eval();
  }
  ~EvaluationScope() {
    if (trains_) model_.train();
  }
  EvaluationScope(const EvaluationScope&) = delete;
  EvaluationScope& operator=(const EvaluationScope&) = delete;

 private:
  PreTrainedModel& model_;
  bool trains_;
};

// Returns some rows of `all`.
BatchEncoding rows_of(const BatchEncoding& all, std::span<const std::size_t> rows) {
  BatchEncoding chosen;
  for (const auto& [name, column] : all.columns()) {
    BatchEncoding::Column part;
    for (const std::size_t row : rows) part.push_back(column.at(row));
    chosen.set(name, std::move(part));
  }
  return chosen;
}

Inputs on_device(const Inputs& inputs, c10::Device device) {
  Inputs moved;
  for (const auto& [name, tensor] : inputs) moved.set(name, tensor.to(device));
  return moved;
}

}  // namespace

at::Tensor sentence_embeddings(const at::Tensor& last_hidden_state,
                               const at::Tensor& attention_mask, const SentenceOptions& options) {
  if (last_hidden_state.dim() != 3) {
    throw UsageError("last_hidden_state has " + std::to_string(last_hidden_state.dim()) +
                     " dimensions; allowed are three: rows, tokens and numbers");
  }
  const at::Tensor hidden = last_hidden_state.to(at::kFloat);
  at::Tensor counts = attention_mask;
  if (!counts.defined()) counts = at::ones({hidden.size(0), hidden.size(1)}, hidden.options());
  if (counts.sizes() != hidden.sizes().slice(0, 2))
    throw UsageError("the attention mask has not the rows and tokens of last_hidden_state");
  counts = counts.to(hidden.device()).ne(0).unsqueeze(-1);
  at::Tensor pooled;
  switch (options.pooling) {
    case SentencePooling::cls:
      pooled = hidden.select(1, 0);
      break;
    case SentencePooling::mean:
      pooled = (hidden * counts).sum(1) / counts.to(at::kFloat).sum(1).clamp_min(1e-9);
      break;
    case SentencePooling::max:
      pooled = hidden.masked_fill(counts.logical_not(), -1e9).amax(1);
      break;
  }
  if (!options.normalizes) return pooled;
  return pooled / pooled.norm(2, 1, /*keepdim=*/true).clamp_min(1e-12);
}

SentenceEncoder::SentenceEncoder(std::shared_ptr<PreTrainedModel> model,
                                 PreTrainedTokenizer tokenizer, SentenceOptions options)
    : model_(std::move(model)), tokenizer_(std::move(tokenizer)), options_(options) {
  if (options_.max_length) return;
  options_.max_length = tokenizer_.model_max_length();
  const auto positions = model_->config().get_if<std::int64_t>("max_position_embeddings");
  if (!options_.max_length && positions)
    options_.max_length = static_cast<std::size_t>(*positions);
  else if (positions)
    options_.max_length = std::min(*options_.max_length, static_cast<std::size_t>(*positions));
}

SentenceEncoder SentenceEncoder::from_pretrained(const std::string& name_or_folder,
                                                 const FromPretrainedOptions& options) {
  Modules modules = read_modules(name_or_folder, options.hub);
  const std::string place =
      modules.path_of_model.empty()
          ? name_or_folder
          : (fetch_folder(name_or_folder, options.hub) / modules.path_of_model).string();
  modules.options.max_length = read_max_length(place, options.hub);
  return {AutoModel::from_pretrained(place, options),
          AutoTokenizer::from_pretrained(place, options.hub), modules.options};
}

at::Tensor SentenceEncoder::encode(const std::vector<std::string>& texts,
                                   std::size_t batch_size) const {
  if (texts.empty()) throw UsageError("there are no texts to encode; pass one or more");
  if (batch_size < 1) throw UsageError("batch_size is 0; allowed are 1 and more");
  const BatchEncoding all = tokenizer_(Texts(texts), {.truncation = options_.max_length.has_value(),
                                                      .max_length = options_.max_length,
                                                      .return_attention_mask = true});
  const auto& ids = all.input_ids();
  std::vector<std::size_t> order(texts.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](std::size_t row) { return ids[row].size(); });
  const at::NoGradGuard no_grad;
  const EvaluationScope evaluates(*model_);
  const c10::Device device = model_->parameters().front().device();
  std::vector<at::Tensor> vectors;
  for (std::size_t begin = 0; begin < order.size(); begin += batch_size) {
    const auto rows = std::span(order).subspan(begin, std::min(batch_size, order.size() - begin));
    const Inputs inputs = on_device(
        to_inputs(tokenizer_.pad(rows_of(all, rows), {.padding_side = Side::right})), device);
    const at::Tensor hidden = model_->forward(inputs).last_hidden_state;
    if (!hidden.defined())
      throw UsageError(model_->name() + " has a head; texts are encoded by an AutoModel");
    vectors.push_back(sentence_embeddings(hidden, inputs["attention_mask"], options_).to(at::kCPU));
  }
  const at::Tensor sorted = at::cat(vectors);
  const at::Tensor places =
      at::tensor(std::vector<std::int64_t>(order.begin(), order.end()), at::kLong);
  return at::empty_like(sorted).index_copy_(0, places, sorted);
}

}  // namespace accelerate
