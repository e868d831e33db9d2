#include "accelerate/transformers/models/config/limits.h"

#include <algorithm>
#include <initializer_list>
#include <sstream>
#include <utility>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/transformers/models/config/dtype_names.h"

namespace accelerate::detail {
namespace {

std::string number(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

// The value of `key`; 0 if it is missing, or is not allowed anyway.
double size_at(const PretrainedConfig& values, std::string_view key,
               const Range<std::int64_t>& range) {
  const std::int64_t value = values.get_if<std::int64_t>(key).value_or(0);
  return value >= range.least && value <= range.most ? static_cast<double>(value) : 0;
}

// The weights of a model have at least so many numbers.
double least_numbers(const PretrainedConfig& values, const SizeKeys& keys) {
  const double width = size_at(values, keys.width, limits::kWidth),
               inner = size_at(values, keys.inner, limits::kInner),
               layers = size_at(values, keys.layers, limits::kLayers),
               words = size_at(values, "vocab_size", limits::kWords);
  // Queries and outputs of attention, where the heads share out the width.
  const double attention = values.json_of("head_dim") == "null" ? 2 * width : 0;
  return width * (words + layers * (attention + 2 * inner));
}

// The type that `key`, which is there, names.
at::ScalarType dtype_at(const PretrainedConfig& values, std::string_view key) {
  const auto word = values.get_if<std::string>(key);
  const auto type = word ? dtype_named(*word) : std::nullopt;
  if (type) return *type;
  std::string names;
  for (const auto& [name, known] : kDtypeNames)
    names += (names.empty() ? "" : ", ") + std::string(name);
  values.refuse(key, "one of " + names);
}

// Throws ConfigError unless `key` is null, missing or one of `words`.
void check_word(const PretrainedConfig& values, std::string_view key,
                std::initializer_list<std::string_view> words) {
  if (values.json_of(key) == "null") return;
  const auto word = values.get_if<std::string>(key);
  if (word && std::ranges::find(words, *word) != words.end()) return;
  std::string allowed = "null";
  for (const auto& known : words)
    allowed += (&known + 1 == words.end() ? " or " : ", ") + std::string(known);
  values.refuse(key, allowed);
}

void check_layer_words(const PretrainedConfig& values) {
  if (values.json_of("layer_types") == "null") return;
  const auto types = values.get<std::vector<std::string>>("layer_types", {});
  for (const auto& type : types) {
    if (type == "full_attention" || type == "sliding_attention") continue;
    throw ConfigError(values.name() + ": 'layer_types' has '" + type +
                      "'; allowed are full_attention and sliding_attention");
  }
  if (const auto layers = values.get_if<std::int64_t>("num_hidden_layers"))
    check_layer_types(values, types, *layers);
}

// What Python refuses too. Heads without labels do not read them.
void check_labels_of_config(const PretrainedConfig& values) {
  if (values.contains("num_labels") && !values.get_if<std::int64_t>("num_labels"))
    values.refuse("num_labels", "an integer");
  if (values.json_of("id2label") == "null") return;
  const char* const kAllowed = "an object of numbers and names";
  if (!values.json_of("id2label").starts_with('{')) values.refuse("id2label", kAllowed);
  for (const std::string& key : values.section("id2label")->keys()) {
    if (parse_int(trim(key))) continue;
    throw ConfigError(values.name() + ": 'id2label' has the number '" + key + "'; allowed is " +
                      kAllowed + ", such as {\"0\": \"no\", \"1\": \"yes\"}");
  }
}

}  // namespace

std::string in_words(const Range<std::int64_t>& range) {
  return "an integer from " + std::to_string(range.least) + " to " + std::to_string(range.most);
}

std::string in_words(const Range<double>& range) {
  return "a number from " + number(range.least) + " to " + number(range.most);
}

void check_heads(const PretrainedConfig& values, const HeadsOfWidth& given) {
  if (given.width % given.heads == 0) return;
  throw ConfigError(values.name() + ": '" + given.width_key + "' is " +
                    std::to_string(given.width) + ", which " + std::to_string(given.heads) +
                    " attention heads ('" + given.heads_key +
                    "') do not divide; allowed is a multiple");
}

void check_key_heads(const PretrainedConfig& values, std::int64_t heads, std::int64_t key_heads) {
  if (heads % key_heads == 0) return;
  throw ConfigError(values.name() + ": 'num_key_value_heads' is " + std::to_string(key_heads) +
                    ", which does not divide " + std::to_string(heads) +
                    " attention heads ('num_attention_heads'); allowed is a divisor");
}

void check_layer_types(const PretrainedConfig& values, const std::vector<std::string>& types,
                       std::int64_t layers) {
  if (std::cmp_equal(types.size(), layers)) return;
  throw ConfigError(values.name() + ": 'layer_types' has " + std::to_string(types.size()) +
                    " entries; allowed are " + std::to_string(layers) +
                    ", one for each of 'num_hidden_layers'");
}

void check_padding_row(const PretrainedConfig& values, std::optional<std::int64_t> pad_token_id,
                       const char* rows_key, std::int64_t rows) {
  if (!pad_token_id || (*pad_token_id >= -rows && *pad_token_id < rows)) return;
  throw ConfigError(values.name() + ": 'pad_token_id' is " + std::to_string(*pad_token_id) +
                    "; allowed are null and 0 to " + std::to_string(rows - 1) + ", as '" +
                    rows_key + "' is " + std::to_string(rows) +
                    ". Below zero it counts from the end");
}

std::optional<at::ScalarType> dtype_of_weights(const PretrainedConfig& values) {
  for (const char* key : {"dtype", "torch_dtype"}) {
    const std::string json = values.json_of(key);
    if (json == "null") continue;
    if (!json.starts_with('{')) return dtype_at(values, key);
    at::ScalarType type = at::kFloat;
    const PretrainedConfig parts = *values.section(key);
    for (const std::string& part : parts.keys()) {
      const auto named = dtype_at(parts, part);
      if (part.empty()) type = named;
    }
    return type;
  }
  return std::nullopt;
}

void check_common_keys(const PretrainedConfig& values) {
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    const bool is_list =
        key == std::string_view("eos_token_id") && values.get_if<std::vector<std::int64_t>>(key);
    if (values.json_of(key) != "null" && !is_list) (void)value_in(values, key, limits::kTokenId);
  }
  check_word(values, "problem_type",
             {"regression", "single_label_classification", "multi_label_classification"});
  check_layer_words(values);
  check_labels_of_config(values);
  (void)dtype_of_weights(values);
  // All of them compute the same numbers.
  for (const char* key : {"attn_implementation", "_attn_implementation"}) {
    check_word(values, key,
               {"eager", "sdpa", "flash_attention_2", "flash_attention_3", "flash_attention_4",
                "flex_attention", "paged|eager"});
  }
}

void check_size(const PretrainedConfig& values, const SizeKeys& keys, std::uint64_t memory_bytes) {
  const double bytes = sizeof(float) * least_numbers(values, keys);
  if (memory_bytes == 0 || bytes <= static_cast<double>(memory_bytes)) return;
  throw ConfigError(values.name() + ": the vocabulary, the width and the number of layers make " +
                    format_bytes(bytes) + " of weights or more; this machine has " +
                    format_bytes(static_cast<double>(memory_bytes)) +
                    ". Correct 'vocab_size', 'hidden_size' and similar keys, or make the model "
                    "within init_empty_weights()");
}

}  // namespace accelerate::detail
