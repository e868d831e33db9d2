// A SentencePiece model is refused with a ConfigError, or each class makes a tokenizer of it, which
// encodes a text or refuses it with an Error.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "accelerate/base/error.h"
#include "accelerate/transformers/tokenizers/pretrained/older_files.h"
#include "accelerate/transformers/tokenizers/tokenizer.h"

namespace {

using namespace accelerate;

constexpr std::array kClasses{"", "LlamaTokenizer", "T5Tokenizer", "XLMRobertaTokenizer",
                              "AlbertTokenizer", "DebertaV2Tokenizer"};

void open(const detail::SentencePieceModel& model, const char* name) {
  detail::TokenizerConfig config;
  config.of_class = detail::tokenizer_class(name);
  const auto json = detail::tokenizer_of_sentencepiece(model, config, "spiece.model");
  const Tokenizer tokenizer = Tokenizer::from_text(json.dump());
  (void)tokenizer.decode(tokenizer.encode("the  fox's caf\u00e9 \u4f60 12 </s>").ids);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  try {
    const auto model = detail::parse_sentencepiece(bytes, "spiece.model");
    for (const char* const name : kClasses) {
      try {
        open(model, name);
      } catch (const Error&) {
      }
    }
  } catch (const ConfigError&) {
  }
  return 0;
}
