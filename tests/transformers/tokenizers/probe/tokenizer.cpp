// Encodes what tests/reference/tokenizers_live.py sends it, and prints what came of it.
//
// usage: tokenizer_probe TOKENIZER.JSON
//
// Reads one JSON value a line: {"text", "pair"?, "special"?, "max_length"?, "stride"?, "strategy"?,
// "side"?}. Prints one a line: ids, types, tokens, offsets, bytes, words, special, attention,
// overflowing, decoded; or {"error": "KIND: …"}. Texts travel as hexadecimal bytes.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "accelerate/base/error.h"
#include "accelerate/transformers/tokenizers/tokenizer.h"

namespace {

using accelerate::Encoding;
using Json = nlohmann::json;

std::string from_hex(const std::string& digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

Json offsets_of(const Encoding& encoding) {
  Json list = Json::array();
  for (const auto& [begin, end] : encoding.offsets) list.push_back({begin, end});
  return list;
}

Json json_of(const Encoding& encoding) {
  Json overflowing = Json::array();
  for (const Encoding& part : encoding.overflowing) overflowing.push_back(json_of(part));
  return {{"ids", encoding.ids},
          {"types", encoding.type_ids},
          {"tokens", encoding.tokens},
          {"offsets", offsets_of(encoding)},
          {"words", encoding.words},
          {"sequences", encoding.sequences},
          {"special", encoding.special_tokens_mask},
          {"attention", encoding.attention_mask},
          {"overflowing", overflowing}};
}

accelerate::TruncationOptions truncation_of(const Json& request) {
  const std::string strategy = request.value("strategy", "longest_first");
  return {.max_length = request["max_length"],
          .stride = request.value("stride", std::size_t{0}),
          .strategy = strategy == "only_first"    ? accelerate::TruncationStrategy::only_first
                      : strategy == "only_second" ? accelerate::TruncationStrategy::only_second
                                                  : accelerate::TruncationStrategy::longest_first,
          .side = request.value("side", "right") == "left" ? accelerate::Side::left
                                                           : accelerate::Side::right};
}

Json answer(accelerate::Tokenizer& tokenizer, const Json& request) {
  if (request.contains("max_length")) tokenizer.set_truncation(truncation_of(request));
  const std::string text = from_hex(request["text"]), pair = from_hex(request.value("pair", ""));
  accelerate::TextInput input{text};
  if (request.contains("pair")) input.pair = pair;
  accelerate::EncodeOptions options{.add_special_tokens = request.value("special", true)};
  const Encoding encoding = tokenizer.encode(input, options);
  options.offsets_in_bytes = true;
  Json result = json_of(encoding);
  result["bytes"] = offsets_of(tokenizer.encode(input, options));
  result["decoded"] = {tokenizer.decode(encoding.ids), tokenizer.decode(encoding.ids, false)};
  return result;
}

}  // namespace

int main(int, char** argv) {
  try {
    auto tokenizer = accelerate::Tokenizer::from_file(argv[1]);
    tokenizer.set_padding({});
    const std::optional<accelerate::TruncationOptions> truncation;
    for (std::string line; std::getline(std::cin, line);) {
      try {
        tokenizer.set_truncation(truncation);
        std::cout << answer(tokenizer, Json::parse(line)).dump() << "\n";
      } catch (const accelerate::Error& error) {
        std::cout << Json{{"error", std::string(error.kind()) + ": " + error.what()}}.dump()
                  << "\n";
      }
    }
  } catch (const accelerate::Error& error) {
    std::cout << Json{{"error", std::string(error.kind()) + ": " + error.what()}}.dump() << "\n";
    return 1;
  }
  return 0;
}
