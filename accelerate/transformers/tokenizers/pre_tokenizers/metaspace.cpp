// SentencePiece's pre-tokenizer: blanks become a visible letter that words begin with.
#include <algorithm>
#include <string>
#include <utility>

#include "accelerate/transformers/tokenizers/pre_tokenizers/piece_writer.h"
#include "accelerate/transformers/tokenizers/text/metaspace_options.h"

namespace accelerate::detail {
namespace {

class Metaspace : public PreTokenizer {
 public:
  explicit Metaspace(const JsonView& json) : options_(read_metaspace_options(json)) {}

  void apply(Pieces& pieces) const override {
    replace_blanks(pieces);
    if (!options_.splits) return;
    std::vector<Span> cut;
    cut.reserve(pieces.ranges.size());
    for (const Span& range : pieces.ranges) cut_before_letters(pieces, range, cut);
    pieces.ranges = std::move(cut);
  }

 private:
  void replace_blanks(Pieces& pieces) const {
    const std::string& letter = options_.replacement;
    PieceWriter writer(pieces);
    for (const Span& range : pieces.ranges) {
      const std::string_view piece = pieces.view(range);
      writer.begin_piece();
      if (prepends(writer.begins_input(range)) && piece[0] != ' ' && !piece.starts_with(letter))
        writer.put(letter, range.begin);
      for (std::size_t at = 0; at < piece.size();) {
        const std::size_t blank = std::min(piece.find(' ', at), piece.size());
        writer.keep({range.begin + static_cast<std::uint32_t>(at),
                     range.begin + static_cast<std::uint32_t>(blank)});
        if (blank < piece.size()) writer.put(letter, range.begin + blank);
        at = blank + 1;
      }
      writer.end_piece();
    }
    writer.finish();
  }

  [[nodiscard]] bool prepends(bool begins_input) const {
    if (options_.prepend == PrependScheme::first) return begins_input;
    return options_.prepend == PrependScheme::always;
  }

  void cut_before_letters(const Pieces& pieces, const Span& range, std::vector<Span>& cut) const {
    const std::string_view piece = pieces.view(range);
    std::size_t begin = 0;
    while (begin < piece.size()) {
      const std::size_t end = std::min(piece.find(options_.replacement, begin + 1), piece.size());
      cut.push_back({range.begin + static_cast<std::uint32_t>(begin),
                     range.begin + static_cast<std::uint32_t>(end)});
      begin = end;
    }
  }

  MetaspaceOptions options_;
};

}  // namespace

std::unique_ptr<PreTokenizer> read_metaspace(const JsonView& json) {
  return std::make_unique<Metaspace>(json);
}

}  // namespace accelerate::detail
