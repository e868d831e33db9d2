// GPT-2's pre-tokenizer: cuts words by its pattern, and spells their bytes as letters.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "accelerate/transformers/tokenizers/pre_tokenizers/behavior.h"
#include "accelerate/transformers/tokenizers/pre_tokenizers/piece_writer.h"
#include "accelerate/transformers/tokenizers/regex/regex.h"
#include "accelerate/transformers/tokenizers/text/byte_letters.h"
#include "accelerate/transformers/tokenizers/unicode/code_points.h"

namespace accelerate::detail {
namespace {

constexpr char kGpt2Pattern[] =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

class ByteLevel : public PreTokenizer {
 public:
  explicit ByteLevel(const JsonView& json) : adds_space_(json.boolean("add_prefix_space", true)) {
    if (json.boolean("use_regex", true)) regex_ = Regex::compile(kGpt2Pattern);
  }

  bool apply_to_bytes(Pieces& pieces) const override {
    const auto begins_otherwise = [&](const Span& range) {
      return pieces.text.view()[range.begin] != ' ';
    };
    if (adds_space_ && std::ranges::any_of(pieces.ranges, begins_otherwise)) add_spaces(pieces);
    if (!regex_) return true;
    std::vector<Span> cut;
    std::vector<Match> matches;
    for (const Span& range : pieces.ranges) {
      matches.clear();
      regex_->find_all(pieces.view(range), matches);
      append_isolated(range, matches, cut);
    }
    pieces.ranges = std::move(cut);
    return true;
  }

  void apply(Pieces& pieces) const override {
    apply_to_bytes(pieces);
    PieceWriter writer(pieces);
    for (const Span& range : pieces.ranges) {
      writer.begin_piece();
      for (std::size_t at = range.begin; at < range.end; ++at) {
        const auto byte = static_cast<unsigned char>(pieces.text.view()[at]);
        writer.put(to_utf8(byte_letters()[byte]), at);
      }
      writer.end_piece();
    }
    writer.finish();
  }

 private:
  static void add_spaces(Pieces& pieces) {
    PieceWriter writer(pieces);
    for (const Span& range : pieces.ranges) {
      writer.begin_piece();
      if (pieces.text.view()[range.begin] != ' ') writer.put(" ", range.begin);
      for (std::size_t at = range.begin; at < range.end; ++at)
        writer.put(pieces.text.view().substr(at, 1), at);
      writer.end_piece();
    }
    writer.finish();
  }

  bool adds_space_;
  std::optional<Regex> regex_;
};

}  // namespace

std::unique_ptr<PreTokenizer> read_byte_level(const JsonView& json) {
  return std::make_unique<ByteLevel>(json);
}

}  // namespace accelerate::detail
