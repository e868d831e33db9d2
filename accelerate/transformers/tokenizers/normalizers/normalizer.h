// What is done to a text before it is cut.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "accelerate/transformers/tokenizers/json_view.h"
#include "accelerate/transformers/tokenizers/text/aligned_text.h"  // Change
#include "accelerate/transformers/tokenizers/text/aligned_text.h"

namespace accelerate::detail {

// The four normal forms of Unicode, and what became of each character.

/// Replaces `out` by a normal form of `in`: NFD, NFC if `composed`, NFKD if `compatible`, NFKC if
/// both. A character's `change` is 0 if it stands for one character of `in`, 1 if a decomposition
/// inserted it, -n if n further characters of `in` were composed into it. Marks that are reordered
/// keep their `change`.
/// Cost: linear, some loads a character; sorts each run of marks.
/// Source: the Rust crate `unicode-normalization-alignments`, which `tokenizers` uses.
void normal_form(std::u32string_view in, bool compatible, bool composed, std::vector<Change>& out);

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
