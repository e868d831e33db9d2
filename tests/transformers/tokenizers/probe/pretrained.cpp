// Opens a folder and does what tests/reference/pretrained_live.py asks for.
//
// usage: pretrained_probe
//
// Reads one JSON value a line: {"open": FOLDER}, {"call": {…}}, {"decode": ids, …}, {"about":
// true}, {"align": {…}}, {"tokens": [...]}, {"pad": {…}} or {"save": FOLDER}. Prints one a line, or {"error": "KIND: …"}.
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "accelerate/base/error.h"
#include "accelerate/transformers/tokenizers/pretrained/pre_trained_tokenizer.h"

namespace {

using accelerate::AutoTokenizer;
using accelerate::BatchEncoding;
using accelerate::PreTrainedTokenizer;
using accelerate::Side;
using Json = nlohmann::json;

accelerate::Texts texts_of(const Json& json) {
  if (json.is_string()) return json.get<std::string>();
  if (json.is_null()) return {};
  if (!json.empty() && json[0].is_array()) return json.get<std::vector<std::vector<std::string>>>();
  return json.get<std::vector<std::string>>();
}

template <typename Choice>
Choice choice_of(const Json& json) {
  return json.is_boolean() ? Choice(json.get<bool>()) : Choice(json.get<std::string>());
}

template <typename T>
std::optional<T> optional_of(const Json& json, const char* key) {
  return json.contains(key) ? std::optional<T>(json[key].get<T>()) : std::nullopt;
}

std::optional<Side> side_of(const Json& json) {
  if (!json.contains("padding_side")) return std::nullopt;
  return json["padding_side"] == "left" ? Side::left : Side::right;
}

Json numbers_of(const std::vector<std::int32_t>& numbers) {
  Json list = Json::array();
  for (const std::int32_t number : numbers)
    list.push_back(number == accelerate::kNone ? Json() : Json(number));
  return list;
}

Json json_of(const BatchEncoding& batch) {
  Json result = Json::object();
  for (const auto& [name, column] : batch.columns()) result[name] = column;
  Json offsets = Json::array();
  for (const auto& row : batch.encodings()) {
    offsets.push_back(Json::array());
    for (const auto& [begin, end] : row.offsets) offsets.back().push_back({begin, end});
  }
  if (!batch.encodings().empty()) result["offset_mapping"] = offsets;
  for (const auto& row : batch.encodings()) {
    result["word_ids"].push_back(numbers_of(row.words));
    result["sequence_ids"].push_back(numbers_of(row.sequences));
  }
  if (!batch.overflow_to_sample_mapping().empty())
    result["overflow_to_sample_mapping"] = batch.overflow_to_sample_mapping();
  return result;
}

accelerate::TokenizerCallOptions options_of(const Json& json) {
  accelerate::TokenizerCallOptions options;
  if (json.contains("truncation"))
    options.truncation = choice_of<accelerate::Truncation>(json["truncation"]);
  if (json.contains("padding")) options.padding = choice_of<accelerate::Padding>(json["padding"]);
  options.max_length = optional_of<std::size_t>(json, "max_length");
  options.text_pair = texts_of(json.value("text_pair", Json()));
  options.add_special_tokens = json.value("add_special_tokens", true);
  options.stride = json.value("stride", std::size_t{0});
  options.pad_to_multiple_of = optional_of<std::size_t>(json, "pad_to_multiple_of");
  options.padding_side = side_of(json);
  options.return_overflowing_tokens = json.value("return_overflowing_tokens", false);
  options.return_special_tokens_mask = json.value("return_special_tokens_mask", false);
  options.return_length = json.value("return_length", false);
  options.text_target = texts_of(json.value("text_target", Json()));
  options.text_pair_target = texts_of(json.value("text_pair_target", Json()));
  options.max_target_length = optional_of<std::size_t>(json, "max_target_length");
  options.is_split_into_words = json.value("is_split_into_words", false);
  options.split_special_tokens = optional_of<bool>(json, "split_special_tokens");
  options.verbose = false;
  return options;
}

Json call(const PreTrainedTokenizer& tokenizer, const Json& json) {
  return json_of(tokenizer(texts_of(json.value("text", Json())), options_of(json)));
}

// The labels of tokens, and the ways between characters, words and tokens.
Json align(const PreTrainedTokenizer& tokenizer, const Json& json) {
  const BatchEncoding batch = tokenizer(texts_of(json["call"]["text"]), options_of(json["call"]));
  const auto json_or_null = [](const auto& value) { return value ? Json(*value) : Json(); };
  Json ways = Json::array();
  for (std::size_t row = 0; row < batch.encodings().size(); ++row) {
    for (std::size_t token = 0; token < batch.encodings()[row].size(); ++token)
      ways.push_back({json_or_null(batch.token_to_word(row, token)),
                      json_or_null(batch.token_to_sequence(row, token))});
    for (std::int32_t i = 0; i < 6; ++i) {
      const auto chars = batch.word_to_chars(row, i);
      ways.push_back({chars ? Json{chars->begin, chars->end} : Json(),
                      json_or_null(batch.char_to_word(row, static_cast<std::uint32_t>(i)))});
    }
  }
  return {{"labels", batch.align_labels(json["labels"].get<BatchEncoding::Column>(),
                                        {.all_tokens = json["all_tokens"]})},
          {"ways", ways}};
}

Json pad(const PreTrainedTokenizer& tokenizer, const Json& json) {
  std::vector<std::pair<std::string, BatchEncoding::Column>> columns;
  for (const auto& [name, column] : json["columns"].items())
    columns.emplace_back(name, column.get<BatchEncoding::Column>());
  return json_of(
      tokenizer.pad(BatchEncoding(std::move(columns)),
                    {.padding = choice_of<accelerate::Padding>(json["padding"]),
                     .max_length = optional_of<std::size_t>(json, "max_length"),
                     .pad_to_multiple_of = optional_of<std::size_t>(json, "pad_to_multiple_of"),
                     .padding_side = side_of(json)}));
}

Json about(const PreTrainedTokenizer& tokenizer) {
  Json added = Json::object();
  for (const auto& [id, token] : tokenizer.added_tokens_decoder()) {
    added[std::to_string(id)] = {token.content, token.special,     token.lstrip,
                                 token.rstrip,  token.single_word, token.normalized};
  }
  return {{"special_tokens_map", tokenizer.special_tokens_map()},
          {"all_special_tokens", tokenizer.all_special_tokens()},
          {"all_special_ids", tokenizer.all_special_ids()},
          {"vocab_size", tokenizer.vocab_size()},
          {"size", tokenizer.size()},
          {"added", added},
          {"model_max_length",
           tokenizer.model_max_length() ? Json(*tokenizer.model_max_length()) : Json()},
          {"padding_side", tokenizer.padding_side() == Side::left ? "left" : "right"},
          {"truncation_side", tokenizer.truncation_side() == Side::left ? "left" : "right"},
          {"pad_token_id", tokenizer.pad_token_id() ? Json(*tokenizer.pad_token_id()) : Json()},
          {"model_input_names", tokenizer.model_input_names()},
          {"single", tokenizer.num_special_tokens_to_add()},
          {"pair", tokenizer.num_special_tokens_to_add(true)}};
}

Json answer(std::optional<PreTrainedTokenizer>& tokenizer, const Json& request) {
  if (request.contains("open")) {
    tokenizer = AutoTokenizer::from_pretrained(request["open"]);
    return Json::object();
  }
  if (request.contains("call")) return call(*tokenizer, request["call"]);
  if (request.contains("align")) return align(*tokenizer, request["align"]);
  if (request.contains("pad")) return pad(*tokenizer, request["pad"]);
  if (request.contains("about")) return about(*tokenizer);
  if (request.contains("save")) {
    tokenizer->save_pretrained(request["save"].get<std::string>());
    return Json::object();
  }
  if (request.contains("add_tokens")) {
    std::vector<accelerate::AddedToken> tokens;
    for (const Json& content : request["add_tokens"])
      tokens.push_back({.content = content, .special = request.value("special", false)});
    return tokenizer->add_tokens(tokens);
  }
  if (request.contains("tokens"))
    return tokenizer->convert_tokens_to_ids(request["tokens"].get<std::vector<std::string>>());
  const auto ids = request["decode"].get<std::vector<std::int64_t>>();
  return {{"text", tokenizer->decode(ids, request.value("skip_special_tokens", false),
                                     optional_of<bool>(request, "clean_up"))},
          {"tokens", tokenizer->convert_ids_to_tokens(ids)}};
}

}  // namespace

int main() {
  std::optional<PreTrainedTokenizer> tokenizer;
  for (std::string line; std::getline(std::cin, line);) {
    try {
      std::cout << answer(tokenizer, Json::parse(line)).dump() << std::endl;
    } catch (const accelerate::Error& error) {
      std::cout << Json{{"error", std::string(error.kind()) + ": " + error.what()}}.dump()
                << std::endl;
    }
  }
}
