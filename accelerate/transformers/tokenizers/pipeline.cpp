#include "accelerate/transformers/tokenizers/pipeline.h"

#include <utility>

#include "accelerate/transformers/tokenizers/encoding_parts.h"

namespace accelerate::detail {
namespace {

class Run {
 public:
  Run(const Pipeline& pipeline, Scratch& scratch, bool splits_special)
      : pipeline_(pipeline), scratch_(scratch), splits_special_(splits_special) {}

  Encoding run(std::string_view text) {
    const std::size_t likely = text.size() / 3 + 8;
    encoding_.ids.reserve(likely);
    encoding_.tokens.reserve(likely);
    encoding_.offsets.reserve(likely);
    encoding_.words.reserve(likely);
    for (const auto& [range, id] : cut(text, /*is_normalized=*/false)) {
      const auto part = text.substr(range.begin, range.size());
      if (id != kNoId) {
        add(id, part, {range.begin, range.end});
        ++word_;
      } else {
        run_between(part, range.begin);
      }
    }
    finish();
    return std::move(encoding_);
  }

 private:
  [[nodiscard]] std::vector<Found> cut(std::string_view text, bool is_normalized) const {
    return pipeline_.added.cut(text,
                               {.is_normalized = is_normalized, .keeps_special = !splits_special_});
  }

  // Tokenizes the text between tokens that were found before normalization.
  void run_between(std::string_view part, std::size_t first_byte) {
    AlignedText text(part, first_byte);
    if (pipeline_.normalizer != nullptr) pipeline_.normalizer->apply(text);
    const auto parts = cut(text.view(), /*is_normalized=*/true);
    if (parts.size() == 1 && parts[0].id == kNoId) return run_plain(text, parts[0].range);
    for (const auto& [range, id] : parts) {
      if (id != kNoId) {
        add(id, text.view().substr(range.begin, range.size()), text.origin(range.begin, range.end));
        ++word_;
      } else {
        // A pre-tokenizer may change its text, which the other parts still need.
        AlignedText copy(text.view(), 0);
        copy.assign(std::string(text.view()), text.origins());
        run_plain(copy, range);
      }
    }
  }

  void run_plain(AlignedText& text, const Span& range) {
    Pieces pieces{text, {range}};
    bool are_bytes = false;
    if (pipeline_.pre_tokenizer != nullptr) {
      are_bytes = pipeline_.model->takes_bytes() && pipeline_.pre_tokenizer->apply_to_bytes(pieces);
      if (!pipeline_.model->takes_bytes()) pipeline_.pre_tokenizer->apply(pieces);
    }
    for (const Span& piece : pieces.ranges) {
      tokens_.clear();
      if (are_bytes) {
        pipeline_.model->tokenize_bytes(pieces.view(piece), scratch_, tokens_);
      } else {
        pipeline_.model->tokenize(pieces.view(piece), scratch_, tokens_);
      }
      for (const PieceToken& token : tokens_) add(pieces, piece, token);
      ++word_;
    }
  }

  void add(const Pieces& pieces, const Span& piece, const PieceToken& token) {
    const auto origin = pieces.text.origin(piece.begin + token.begin, piece.begin + token.end);
    if (spelled_ && *spelled_ == token.id) {
      add(token.id, pieces.view({piece.begin + token.begin, piece.begin + token.end}), origin);
    } else {
      add(token.id, pipeline_.model->vocabulary().word_of(token.id).value_or(""), origin);
    }
  }

  void add(std::uint32_t id, std::string_view token, const Span& origin) {
    encoding_.ids.push_back(id);
    encoding_.tokens.emplace_back(token);
    encoding_.offsets.push_back({origin.begin, origin.end});
    encoding_.words.push_back(word_);
  }

  void finish() {
    const std::size_t count = encoding_.size();
    reserve(encoding_, encoding_.ids.capacity());
    encoding_.type_ids.assign(count, 0);
    encoding_.sequences.assign(count, 0);
    encoding_.special_tokens_mask.assign(count, 0);
    encoding_.attention_mask.assign(count, 1);
  }

  const Pipeline& pipeline_;
  Scratch& scratch_;
  bool splits_special_;
  Encoding encoding_;
  std::vector<PieceToken> tokens_;
  std::int32_t word_ = 0;
  const std::optional<std::uint32_t> spelled_ = pipeline_.model->spelled_as_text();
};

}  // namespace

Encoding Pipeline::tokenize(std::string_view text, Scratch& scratch, bool splits_special) const {
  return Run(*this, scratch, splits_special).run(text);
}

std::unique_ptr<Scratch> ScratchPool::take(const Model& model) {
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      auto scratch = std::move(free_.back());
      free_.pop_back();
      return scratch;
    }
  }
  return model.scratch();
}

void ScratchPool::give_back(std::unique_ptr<Scratch> scratch) {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(scratch));
}

}  // namespace accelerate::detail
