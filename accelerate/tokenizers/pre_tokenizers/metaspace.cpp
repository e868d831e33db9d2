// SentencePiece's pre-tokenizer: blanks become a visible letter that words begin with.
#include <string>
#include <utility>

#include "accelerate/tokenizers/pre_tokenizers/behavior.h"
#include "accelerate/tokenizers/pre_tokenizers/piece_writer.h"
#include "accelerate/tokenizers/text/metaspace_options.h"

namespace accelerate::detail {
namespace {

class Metaspace : public PreTokenizer {
 public:
  explicit Metaspace(const JsonView& json) : options_(read_metaspace_options(json)) {}

  void apply(Pieces& pieces) const override {
    replace_blanks(pieces);
    if (!options_.splits) return;
    std::vector<Span> cut;
    for (const Span& range : pieces.ranges)
      append_pieces(parts_of(pieces, range), Behavior::merged_with_next, cut);
    pieces.ranges = std::move(cut);
  }

 private:
  void replace_blanks(Pieces& pieces) const {
    const std::string& letter = options_.replacement;
    PieceWriter writer(pieces);
    for (const Span& range : pieces.ranges) {
      const std::string_view piece = pieces.view(range);
      writer.begin_piece();
      if (prepends(pieces, range) && piece[0] != ' ' && !piece.starts_with(letter))
        writer.put(letter, range.begin);
      for (std::size_t at = 0; at < piece.size(); ++at) {
        writer.put(piece[at] == ' ' ? std::string_view(letter) : piece.substr(at, 1),
                   range.begin + at);
      }
      writer.end_piece();
    }
    writer.finish();
  }

  [[nodiscard]] bool prepends(const Pieces& pieces, const Span& range) const {
    if (options_.prepend == PrependScheme::first) {
      return pieces.text.origin(range.begin, range.end).begin == 0;
    }
    return options_.prepend == PrependScheme::always;
  }

  [[nodiscard]] std::vector<CutPart> parts_of(const Pieces& pieces, const Span& range) const {
    std::vector<CutPart> parts;
    const std::string_view piece = pieces.view(range);
    const auto bytes = static_cast<std::uint32_t>(options_.replacement.size());
    std::uint32_t done = 0;
    const auto add = [&](std::uint32_t end, bool is_delimiter) {
      if (end > done) parts.push_back({{range.begin + done, range.begin + end}, is_delimiter});
      done = end;
    };
    for (std::size_t at = piece.find(options_.replacement); at != std::string_view::npos;
         at = piece.find(options_.replacement, at + bytes)) {
      add(static_cast<std::uint32_t>(at), false);
      add(static_cast<std::uint32_t>(at) + bytes, true);
    }
    add(static_cast<std::uint32_t>(piece.size()), false);
    return parts;
  }

  MetaspaceOptions options_;
};

}  // namespace

std::unique_ptr<PreTokenizer> read_metaspace(const JsonView& json) {
  return std::make_unique<Metaspace>(json);
}

}  // namespace accelerate::detail
