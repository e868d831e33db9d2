#include "accelerate/transformers/tokenizers/pre_tokenizers/pre_tokenizer.h"

#include <utility>

#include "accelerate/base/error_name.h"
#include "accelerate/transformers/tokenizers/pre_tokenizers/behavior.h"
#include "accelerate/transformers/tokenizers/text/pattern.h"

namespace accelerate::detail {
namespace {

class Split : public PreTokenizer {
 public:
  explicit Split(const JsonView& json)
      : pattern_(json.at("pattern")),
        behavior_(read_behavior(json.at("behavior"))),
        inverts_(json.boolean("invert", false)) {}

  void apply(Pieces& pieces) const override {
    std::vector<Span> cut;
    cut.reserve(pieces.ranges.size());
    std::vector<Match> matches;
    for (const Span& range : pieces.ranges) {
      matches.clear();
      pattern_.find_all(pieces.view(range), matches);
      if (behavior_ == Behavior::isolated) {
        append_isolated(range, matches, cut);
      } else {
        append_pieces(parts_of(range, matches), behavior_, cut);
      }
    }
    pieces.ranges = std::move(cut);
  }

 private:
  [[nodiscard]] std::vector<CutPart> parts_of(const Span& range,
                                              const std::vector<Match>& matches) const {
    std::vector<CutPart> parts;
    std::uint32_t done = range.begin;
    for (const Match& match : matches) {
      const Span found{range.begin + static_cast<std::uint32_t>(match.begin),
                       range.begin + static_cast<std::uint32_t>(match.end)};
      if (found.begin > done) parts.push_back({{done, found.begin}, inverts_});
      parts.push_back({found, !inverts_});
      done = found.end;
    }
    if (range.end > done) parts.push_back({{done, range.end}, inverts_});
    return parts;
  }

  Pattern pattern_;
  Behavior behavior_;
  bool inverts_;
};

class Sequence : public PreTokenizer {
 public:
  explicit Sequence(const JsonView& json) {
    json.at("pretokenizers").each([&](const JsonView& one) {
      all_.push_back(read_pre_tokenizer(one));
    });
  }

  void apply(Pieces& pieces) const override {
    for (const auto& one : all_) one->apply(pieces);
  }

  bool apply_to_bytes(Pieces& pieces) const override {
    for (std::size_t i = 0; i + 1 < all_.size(); ++i) all_[i]->apply(pieces);
    return !all_.empty() && all_.back()->apply_to_bytes(pieces);
  }

 private:
  std::vector<std::unique_ptr<PreTokenizer>> all_;
};

}  // namespace

std::unique_ptr<PreTokenizer> read_split(const JsonView& json) {
  return std::make_unique<Split>(json);
}

std::unique_ptr<PreTokenizer> read_pre_tokenizer(const JsonView& json) {
  const std::string_view type = json.at("type").text();
  if (auto by_class = read_cut_by_class(json)) return by_class;
  if (type == "ByteLevel") return read_byte_level(json);
  if (type == "Metaspace") return read_metaspace(json);
  if (type == "Split") return read_split(json);
  if (type == "Sequence") return std::make_unique<Sequence>(json);
  json.refuse(
      "is of the type '" + std::string(type) +
          "'; allowed are BertPreTokenizer, ByteLevel, CharDelimiterSplit, Digits, Metaspace, "
          "Punctuation, "
          "Sequence, Split, UnicodeScripts, Whitespace, WhitespaceSplit",
      error_name::kUnknownTokenizer);
}

}  // namespace accelerate::detail
