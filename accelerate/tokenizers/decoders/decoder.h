// How tokens become text again.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "accelerate/tokenizers/json_view.h"

namespace accelerate::detail {

/// Immutable; several threads may use one.
class Decoder {
 public:
  virtual ~Decoder() = default;
  /// The parts of the text that `tokens` stand for, to be put one behind the other.
  [[nodiscard]] virtual std::vector<std::string> apply(std::vector<std::string> tokens) const = 0;
};

/// A decoder of a tokenizer.json. Throws ConfigError for what is damaged or unknown.
[[nodiscard]] std::unique_ptr<Decoder> read_decoder(const JsonView& json);

/// Drops the blanks that cutting put before English punctuation and contractions.
[[nodiscard]] std::string clean_up(std::string text);

}  // namespace accelerate::detail
