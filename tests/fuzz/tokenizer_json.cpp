// A tokenizer.json is refused with a ConfigError, or encodes and decodes texts or refuses them with
// an Error; what it writes of itself opens again and gives equal ids.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/transformers/tokenizers/tokenizer.h"

namespace {

using namespace accelerate;

constexpr std::string_view kTexts[] = {
    "", " ", "Hello, it's a test! [MASK]  caf\u00e9 \u4f60\u597d\t\n1234 \U0001f600",
    "\xff\xe4\xbd broken \xf0\x9f\x98",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"};

// Every vector has an entry a token, and no token lies outside of its text.
void check(const Encoding& encoding) {
  const std::size_t size = encoding.size();
  for (const std::size_t other :
       {encoding.type_ids.size(), encoding.tokens.size(), encoding.offsets.size(),
        encoding.words.size(), encoding.sequences.size(), encoding.special_tokens_mask.size(),
        encoding.attention_mask.size()})
    if (other != size) std::abort();
  for (const Encoding& part : encoding.overflowing) check(part);
}

// The ids of `text` with another behind it; none where it is refused.
std::vector<std::uint32_t> ids_of(const Tokenizer& tokenizer, std::string_view text) {
  try {
    check(tokenizer.encode({text, kTexts[2]}));
    const Encoding encoding = tokenizer.encode(text);
    check(encoding);
    (void)tokenizer.decode(encoding.ids);
    return encoding.ids;
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const Tokenizer tokenizer = Tokenizer::from_text(text);
    const Tokenizer again = Tokenizer::from_text(tokenizer.to_text());
    for (const std::string_view each : kTexts)
      if (ids_of(tokenizer, each) != ids_of(again, each)) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
