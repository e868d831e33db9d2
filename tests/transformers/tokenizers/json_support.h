// Small tokenizers for tests, written as tokenizer.json.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/transformers/tokenizers/tokenizer.h"
#include "tests/support/errors.h"
#include "tests/support/reference.h"

namespace accelerate::testing {

using Json = nlohmann::json;

/// Words and nothing else: [UNK], fox, dog, cut at white space.
inline Json word_level_json() {
  return {{"model",
           {{"type", "WordLevel"},
            {"unk_token", "[UNK]"},
            {"vocab", {{"[UNK]", 0}, {"fox", 1}, {"dog", 2}}}}},
          {"pre_tokenizer", {{"type", "WhitespaceSplit"}}}};
}

/// word_level_json() with `part` changed.
inline Json word_level_with(const char* part, Json value) {
  Json json = word_level_json();
  json[part] = std::move(value);
  return json;
}

/// A tokenizer whose model is `model` and nothing else.
inline Json only_model(Json model) {
  return {{"model", std::move(model)}};
}

inline Tokenizer open(const Json& json) {
  return Tokenizer::from_text(json.dump(), "some/tokenizer.json");
}

/// The message with which `text`, a tokenizer.json, is refused.
inline std::string refusal_of(const std::string& text) {
  return message_of<ConfigError>([&] { (void)Tokenizer::from_text(text, "some/tokenizer.json"); });
}
inline std::string refusal_of(const Json& json) {
  return refusal_of(json.dump());
}

/// tests/reference/encodings_golden.json, parsed once.
inline const Json& encodings_golden() {
  static const Json golden = Json::parse(read_reference("encodings_golden.json"));
  return golden;
}

}  // namespace accelerate::testing
