// Rewrites the text for pre-tokenizers that change their pieces.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/transformers/tokenizers/pre_tokenizers/pre_tokenizer.h"

namespace accelerate::detail {

/// Collects the new text piece by piece; finish() puts it in the place of the old text. Until then
/// the pieces have a view() but no origins.
class PieceWriter {
 public:
  explicit PieceWriter(Pieces& pieces) : pieces_(pieces), before_(pieces.text.take_origins()) {
    const std::size_t likely = before_.size() + before_.size() / 2;
    text_.reserve(likely);
    origins_.reserve(likely);
    ranges_.reserve(pieces.ranges.size());
  }

  /// Whether this piece of the old text comes from the beginning of the whole input. A piece behind
  /// another token does not, nor does one whose first characters the normalizer dropped.
  [[nodiscard]] bool begins_input(const Span& range) const {
    return before_[range.begin].begin == 0;
  }
  void begin_piece() { begin_ = static_cast<std::uint32_t>(text_.size()); }
  /// Appends `content`, which comes from byte `at` of the old text.
  void put(std::string_view content, std::size_t at) {
    text_.append(content);
    origins_.insert(origins_.end(), content.size(), before_[at]);
  }
  /// Appends a part of the old text.
  void keep(const Span& range) {
    text_.append(pieces_.view(range));
    origins_.insert(origins_.end(), before_.begin() + range.begin, before_.begin() + range.end);
  }
  void end_piece() {
    const auto end = static_cast<std::uint32_t>(text_.size());
    if (end > begin_) ranges_.push_back({begin_, end});
  }
  void finish() {
    pieces_.text.assign(std::move(text_), std::move(origins_));
    pieces_.ranges = std::move(ranges_);
  }

 private:
  Pieces& pieces_;
  std::vector<Span> before_, origins_, ranges_;
  std::string text_;
  std::uint32_t begin_ = 0;
};

}  // namespace accelerate::detail
