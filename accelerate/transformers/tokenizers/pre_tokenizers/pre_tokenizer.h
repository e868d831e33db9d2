// How a text is cut into pieces that no token crosses.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "accelerate/transformers/tokenizers/json_view.h"
#include "accelerate/transformers/tokenizers/text/aligned_text.h"

namespace accelerate::detail {

/// A text and the pieces that are left of it. No piece is empty, and no two overlap.
struct Pieces {
  AlignedText& text;
  std::vector<Span> ranges;

  [[nodiscard]] std::string_view view(const Span& range) const {
    return text.view().substr(range.begin, range.size());
  }
};

/// Immutable; several threads may use one.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(Pieces& pieces) const = 0;
  /// As apply(), but skips a last step that spells bytes as letters, and returns true. Without such
  /// a step it does what apply() does, and returns false.
  virtual bool apply_to_bytes(Pieces& pieces) const {
    apply(pieces);
    return false;
  }
};

/// Reads the pre-tokenizer of a tokenizer.json. Throws ConfigError if it is damaged or unknown.
[[nodiscard]] std::unique_ptr<PreTokenizer> read_pre_tokenizer(const JsonView& json);

// clang-format off
[[nodiscard]] std::unique_ptr<PreTokenizer> read_byte_level(const JsonView& json);
[[nodiscard]] std::unique_ptr<PreTokenizer> read_metaspace(const JsonView& json);
[[nodiscard]] std::unique_ptr<PreTokenizer> read_split(const JsonView& json);
/// Reads the pre-tokenizers that cut by the class of each character; nullptr for any other one.
[[nodiscard]] std::unique_ptr<PreTokenizer> read_cut_by_class(const JsonView& json);
// clang-format on

}  // namespace accelerate::detail
