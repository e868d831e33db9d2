// How a text is cut into pieces that no token crosses.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "accelerate/tokenizers/json_view.h"
#include "accelerate/tokenizers/text/aligned_text.h"

namespace accelerate::detail {

/// A text and the pieces that are left of it: none is empty, none overlaps another.
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
  /// As apply(), but leaves bytes as they are where apply() spells them as letters in its last
  /// step, and returns true; false when it has no such step and did what apply() does.
  virtual bool apply_to_bytes(Pieces& pieces) const {
    apply(pieces);
    return false;
  }
};

/// A pre-tokenizer of a tokenizer.json. Throws ConfigError for what is damaged or unknown.
[[nodiscard]] std::unique_ptr<PreTokenizer> read_pre_tokenizer(const JsonView& json);

// clang-format off
[[nodiscard]] std::unique_ptr<PreTokenizer> read_byte_level(const JsonView& json);
[[nodiscard]] std::unique_ptr<PreTokenizer> read_metaspace(const JsonView& json);
[[nodiscard]] std::unique_ptr<PreTokenizer> read_split(const JsonView& json);
/// The others cut where the class of a character says so; nullptr when `json` is none of them.
[[nodiscard]] std::unique_ptr<PreTokenizer> read_cut_by_class(const JsonView& json);
// clang-format on

}  // namespace accelerate::detail
