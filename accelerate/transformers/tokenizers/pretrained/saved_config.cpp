// What a TokenizerConfig says, and how it is written.
#include <algorithm>
#include <utility>

#include "accelerate/formats/documents/json.h"
#include "accelerate/transformers/tokenizers/pretrained/tokenizer_config.h"

namespace accelerate::detail {

bool TokenizerConfig::boolean(const char* key, bool otherwise) const {
  const auto found = values.find(key);
  return found != values.end() && found->is_boolean() ? found->get<bool>() : otherwise;
}

std::string TokenizerConfig::token(Role role) const {
  const auto& token = named[static_cast<std::size_t>(role)];
  return token ? token->content : "";
}

NamedTokens TokenizerConfig::named_tokens() const {
  NamedTokens tokens;
  for (std::size_t i = 0; i < kRoleCount; ++i) {
    if (named[i]) tokens.emplace_back(kRoleKeys[i], *named[i]);
  }
  tokens.insert(tokens.end(), own_names.begin(), own_names.end());
  return tokens;
}

bool TokenizerConfig::is_named(const std::string& content) const {
  return std::ranges::any_of(named_tokens(),
                             [&](const auto& entry) { return entry.second.content == content; });
}

namespace {

/// Transformers writes 10^30 where there is no limit.
constexpr double kNoLimit = 1e30;

// Writes names of the model's own in their section alone. Transformers writes them beside it too,
// and then reads back only the names that end with "_token".
void write_own_names(const NamedTokens& names, nlohmann::ordered_json& values) {
  auto section = nlohmann::ordered_json::object();
  for (const auto& [name, token] : names) {
    values.erase(name);
    section[name] = token.content;
  }
  values["model_specific_special_tokens"] = std::move(section);
}

}  // namespace

std::string write_tokenizer_config(const TokenizerConfig& config) {
  nlohmann::ordered_json values = config.values;
  // tokenizer.json holds these values, and a saved folder has no older files.
  for (const char* const key :
       {"added_tokens_decoder", "additional_special_tokens", "special_tokens_map_file",
        "tokenizer_file", "name_or_path", "max_len", "extra_special_tokens",
        "model_specific_special_tokens"}) {
    values.erase(key);
  }
  for (std::size_t i = 0; i < kRoleCount; ++i) {
    if (config.named[i]) values[std::string(kRoleKeys[i])] = config.named[i]->content;
  }
  if (!config.own_names.empty()) write_own_names(config.own_names, values);
  for (const AddedToken& token : config.extra)
    values["extra_special_tokens"].push_back(token.content);
  values["model_max_length"] = config.model_max_length
                                   ? nlohmann::ordered_json(*config.model_max_length)
                                   : nlohmann::ordered_json(kNoLimit);
  values["padding_side"] = config.padding_side == Side::left ? "left" : "right";
  values["truncation_side"] = config.truncation_side == Side::left ? "left" : "right";
  values["model_input_names"] = config.model_input_names;
  if (!values.contains("tokenizer_class"))
    values["tokenizer_class"] = std::string(config.of_class.name);
  return json_text(values, 2) + "\n";
}

}  // namespace accelerate::detail
