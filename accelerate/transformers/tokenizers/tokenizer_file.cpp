#include "accelerate/transformers/tokenizers/tokenizer_file.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "accelerate/formats/documents/json.h"

namespace accelerate::detail {
namespace {

using Json = nlohmann::ordered_json;

Side read_side(const JsonView& json) {
  const auto side = json.find("direction");
  if (!side || side->text() == "Right") return Side::right;
  if (side->text() == "Left") return Side::left;
  side->refuse("is '" + std::string(side->text()) + "'; allowed are Left and Right");
}

TruncationStrategy read_strategy(const JsonView& json) {
  const std::string_view name = json.text("strategy", "LongestFirst");
  if (name == "LongestFirst") return TruncationStrategy::longest_first;
  if (name == "OnlyFirst") return TruncationStrategy::only_first;
  if (name == "OnlySecond") return TruncationStrategy::only_second;
  json.refuse("has the strategy '" + std::string(name) +
              "'; allowed are LongestFirst, OnlyFirst, OnlySecond");
}

}  // namespace

std::optional<TruncationOptions> read_truncation(const JsonView& root) {
  const auto json = root.find("truncation");
  if (!json) return std::nullopt;
  return TruncationOptions{.max_length = json->at("max_length").count(),
                           .stride = json->count("stride", 0),
                           .strategy = read_strategy(*json),
                           .side = read_side(*json)};
}

std::optional<PaddingOptions> read_padding(const JsonView& root) {
  const auto json = root.find("padding");
  if (!json) return std::nullopt;
  PaddingOptions options{.multiple_of = json->count("pad_to_multiple_of", 0),
                         .side = read_side(*json),
                         .id = json->at("pad_id").id(),
                         .type_id = json->at("pad_type_id").id(),
                         .token = std::string(json->at("pad_token").text())};
  const JsonView strategy = json->at("strategy");
  if (strategy.is_map()) {
    options.length = strategy.at("Fixed").count();
  } else if (strategy.text() != "BatchLongest") {
    strategy.refuse("is '" + std::string(strategy.text()) +
                    "'; allowed are BatchLongest and Fixed");
  }
  return options;
}

std::vector<std::pair<std::uint32_t, AddedToken>> read_added_tokens(const JsonView& root) {
  std::vector<std::pair<std::uint32_t, AddedToken>> tokens;
  const auto list = root.find("added_tokens");
  if (!list) return tokens;
  list->each([&](const JsonView& json) {
    const bool special = json.boolean("special", false);
    tokens.emplace_back(json.at("id").id(),
                        AddedToken{.content = std::string(json.at("content").text()),
                                   .special = special,
                                   .lstrip = json.boolean("lstrip", false),
                                   .rstrip = json.boolean("rstrip", false),
                                   .single_word = json.boolean("single_word", false),
                                   .normalized = json.boolean("normalized", !special)});
  });
  return tokens;
}

namespace {

const char* name_of(Side side) {
  return side == Side::left ? "Left" : "Right";
}

Json json_of(const std::optional<TruncationOptions>& options) {
  if (!options) return nullptr;
  const char* const strategies[] = {"LongestFirst", "OnlyFirst", "OnlySecond"};
  return {{"direction", name_of(options->side)},
          {"max_length", options->max_length},
          {"strategy", strategies[static_cast<std::size_t>(options->strategy)]},
          {"stride", options->stride}};
}

Json json_of(const std::optional<PaddingOptions>& options) {
  if (!options) return nullptr;
  return {
      {"strategy", options->length > 0 ? Json{{"Fixed", options->length}} : Json("BatchLongest")},
      {"direction", name_of(options->side)},
      {"pad_to_multiple_of", options->multiple_of > 0 ? Json(options->multiple_of) : Json()},
      {"pad_id", options->id},
      {"pad_type_id", options->type_id},
      {"pad_token", options->token}};
}

Json json_of(const std::map<std::uint32_t, AddedToken>& tokens) {
  Json list = Json::array();
  for (const auto& [id, token] : tokens) {
    list.push_back({{"id", id},
                    {"content", token.content},
                    {"single_word", token.single_word},
                    {"lstrip", token.lstrip},
                    {"rstrip", token.rstrip},
                    {"normalized", token.normalized},
                    {"special", token.special}});
  }
  return list;
}

}  // namespace

std::string write_tokenizer_file(const std::string& source,
                                 const std::map<std::uint32_t, AddedToken>& added_tokens,
                                 const std::optional<TruncationOptions>& truncation,
                                 const std::optional<PaddingOptions>& padding) {
  const std::map<std::string_view, Json> changed{{"truncation", json_of(truncation)},
                                                 {"padding", json_of(padding)},
                                                 {"added_tokens", json_of(added_tokens)}};
  const JsonDocument document(source, "tokenizer.json");
  std::ostringstream out;
  out << "{\n  \"version\": \"1.0\"";
  for (const auto& [key, value] : changed) out << ",\n  \"" << key << "\": " << json_text(value);
  for (const auto& [key, value] : document.root().map()) {
    if (key != "version" && !changed.contains(key))
      out << ",\n  " << json_string(key) << ": " << simdjson::minify(value);
  }
  out << "\n}\n";
  return out.str();
}

}  // namespace accelerate::detail
