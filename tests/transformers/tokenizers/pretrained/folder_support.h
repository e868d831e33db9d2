// Folders of tokenizers for tests.
#pragma once

#include <map>
#include <string>

#include "accelerate/transformers/tokenizers/pretrained/pre_trained_tokenizer.h"
#include "tests/support/support.h"
#include "tests/transformers/tokenizers/json_support.h"

namespace accelerate::testing {

/// A folder with files of these names and texts.
class TokenizerFolder {
 public:
  explicit TokenizerFolder(const std::map<std::string, std::string>& files) {
    for (const auto& [name, text] : files) folder_.write(name, text);
  }
  [[nodiscard]] std::string path() const { return folder_.path().string(); }
  [[nodiscard]] PreTrainedTokenizer open() const { return AutoTokenizer::from_pretrained(path()); }
  /// The message with which it is refused.
  [[nodiscard]] std::string refusal() const {
    return message_of<ConfigError>([&] { (void)open(); });
  }

 private:
  TemporaryFolder folder_;
};

/// A folder of encodings_golden.json: "vocab.txt" or "tokenizer.json".
inline TokenizerFolder golden_folder(const char* name) {
  return TokenizerFolder(encodings_golden()["pretrained"][name]["files"]);
}

}  // namespace accelerate::testing
