// How tokens become text again.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "accelerate/transformers/tokenizers/json_view.h"

namespace accelerate::detail {

/// Immutable; several threads may use one.
class Decoder {
 public:
  virtual ~Decoder() = default;
  /// Returns parts of text that, put together, are the text of `tokens`.
  [[nodiscard]] virtual std::vector<std::string> apply(std::vector<std::string> tokens) const = 0;
};

/// Reads the decoder of a tokenizer.json. Throws ConfigError if it is damaged or unknown.
[[nodiscard]] std::unique_ptr<Decoder> read_decoder(const JsonView& json);

/// Removes the blanks that tokenization leaves before English punctuation and contractions.
[[nodiscard]] std::string clean_up(std::string text);

}  // namespace accelerate::detail
