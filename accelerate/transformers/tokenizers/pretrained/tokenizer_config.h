// tokenizer_config.json, special_tokens_map.json and added_tokens.json of a folder.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accelerate/transformers/tokenizers/added_token.h"
#include "accelerate/transformers/tokenizers/pretrained/tokenizer_class.h"

namespace accelerate::detail {

// JSON of the small files beside tokenizer.json.

/// Parses the JSON object `text`. Messages name the file as `file` and the expected content as
/// `allowed`. Throws ConfigError if `text` is not a JSON object, or nests beyond 64 levels: copying
/// a value takes stack for each level.
[[nodiscard]] nlohmann::json parse_object(std::string_view text, const std::string& file,
                                          const std::string& allowed);

/// Tokens by name, in Transformers' order. No name comes twice.
using NamedTokens = std::vector<std::pair<std::string, AddedToken>>;

struct TokenizerConfig {
  /// tokenizer_config.json as it is; an empty object if there is none.
  nlohmann::json values = nlohmann::json::object();
  TokenizerClass of_class;
  /// The class that class_with_other_recipe() finds.
  std::string_view other_class;
  std::array<std::optional<AddedToken>, kRoleCount> named;
  /// Tokens with names of the model's own, such as "image_token".
  NamedTokens own_names;
  std::vector<AddedToken> extra;
  /// By id: from `added_tokens_decoder`, or from added_tokens.json in older folders.
  std::map<std::uint32_t, AddedToken> added;
  std::vector<std::string> model_input_names;
  /// nullopt: the tokenizer knows of no limit.
  std::optional<std::size_t> model_max_length;
  Side padding_side = Side::right, truncation_side = Side::right;
  bool cleans_up = false;

  [[nodiscard]] bool boolean(const char* key, bool otherwise) const;
  [[nodiscard]] std::string token(Role role) const;
  /// Returns every token that has a name: roles first, then names of the model's own.
  [[nodiscard]] NamedTokens named_tokens() const;
  /// Whether one of named_tokens() has this content.
  [[nodiscard]] bool is_named(const std::string& content) const;
};

/// Takes what tokenizer_config.json does not say from the sections `truncation` and `padding` of
/// tokenizer.json: pad token and sides. Their lengths and strategies change no call; they are kept
/// for saving, as Transformers does.
void take_sections(TokenizerConfig& config, const std::optional<TruncationOptions>& truncation,
                   const std::optional<PaddingOptions>& padding);

/// Returns the text of a tokenizer_config.json.
[[nodiscard]] std::string write_tokenizer_config(const TokenizerConfig& config);
/// Reads the configuration in `folder`. Throws ConfigError, which names file and key, for a value
/// that is damaged.
[[nodiscard]] TokenizerConfig read_tokenizer_config(const std::filesystem::path& folder);

}  // namespace accelerate::detail
