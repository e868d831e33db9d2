// What is done to a text before it is cut.
#pragma once

#include <memory>

#include "accelerate/transformers/tokenizers/json_view.h"
#include "accelerate/transformers/tokenizers/text/aligned_text.h"

namespace accelerate::detail {

/// Immutable; several threads may use one.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual void apply(AlignedText& text) const = 0;
};

/// Reads the normalizer of a tokenizer.json. Throws ConfigError if it is damaged or unknown.
[[nodiscard]] std::unique_ptr<Normalizer> read_normalizer(const JsonView& json);

[[nodiscard]] std::unique_ptr<Normalizer> read_bert_normalizer(const JsonView& json);
/// Reads SentencePiece's map of characters.
[[nodiscard]] std::unique_ptr<Normalizer> read_precompiled(const JsonView& json);

}  // namespace accelerate::detail
