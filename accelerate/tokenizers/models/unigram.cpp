// Cuts a text into the tokens with the greatest sum of scores, by dynamic programming.
// Source: Kudo, "Subword Regularization" (2018); tokenizers/src/models/unigram, which breaks ties
// in the same way.
#include <algorithm>
#include <array>
#include <limits>

#include "accelerate/tokenizers/models/prefix_tree.h"
#include "accelerate/tokenizers/models/word_cache.h"
#include "accelerate/tokenizers/unicode/code_points.h"

namespace accelerate::detail {
namespace {

// The best way to reach a place of the text.
struct Step {
  double score = 0;
  std::uint32_t id = 0;
  std::int64_t begin = -1;  // -1: not reached
};

class Unigram : public Model {
 public:
  explicit Unigram(const JsonView& json) : Model(json) {
    const JsonView words = json.at("vocab");
    std::uint32_t id = 0;
    words.each([&](const JsonView& pair) { add(pair, id++); });
    if (id == 0) words.refuse("is empty");
    lowest_ = *std::min_element(scores_.begin(), scores_.end());
    if (const auto unknown = json.find("unk_id")) unknown_ = unknown->id();
    if (unknown_ != kNoId && unknown_ >= scores_.size()) {
      json.refuse("names " + std::to_string(unknown_) + " as its unknown token; it has " +
                  std::to_string(scores_.size()) + " tokens");
    }
    if (json.boolean("byte_fallback", false)) find_bytes();
    tree_.build(vocabulary_.words());
    if (const auto unmatched = json.find("unmatched")) forget(*unmatched);
  }

  [[nodiscard]] std::unique_ptr<Scratch> scratch() const override {
    return std::make_unique<WordCache>();
  }

  void tokenize(std::string_view piece, Scratch& scratch,
                std::vector<PieceToken>& out) const override {
    static_cast<WordCache&>(scratch).look_up(
        piece, out, [this](std::string_view text, auto& to) { cut(text, to); });
  }

  [[nodiscard]] std::optional<std::uint32_t> spelled_as_text() const override {
    if (unknown_ == kNoId) return std::nullopt;
    return unknown_;
  }

 private:
  void add(const JsonView& pair, std::uint32_t id) {
    std::vector<JsonView> parts;
    pair.each([&](const JsonView& part) { parts.push_back(part); });
    if (parts.size() != 2) pair.refuse("is no pair of a token and its score");
    if (vocabulary_.find(parts[0].text()) == kNoId) {
      vocabulary_.add(parts[0].text(), id);
    } else {
      pair.refuse("holds '" + std::string(parts[0].text()) + "', which is there already");
    }
    scores_.push_back(parts[1].number());
  }

  // Lets texts not match the tokens of these ids. A key of ours, for pieces that SentencePiece knows
  // by their ids alone; Python's reader passes over it.
  void forget(const JsonView& ids) {
    is_unmatched_.resize(scores_.size());
    ids.each([&](const JsonView& id) {
      const auto word = vocabulary_.word_of(id.id());
      if (!word) ids.refuse("holds " + std::to_string(id.id()) + ", which is the id of no token");
      tree_.remove(*word);
      is_unmatched_[id.id()] = true;
    });
  }

  void find_bytes() {
    constexpr char kDigits[] = "0123456789ABCDEF";
    for (unsigned byte = 0; byte < 256; ++byte) {
      bytes_[byte] =
          vocabulary_.find(std::string("<0x") + kDigits[byte >> 4] + kDigits[byte & 15] + ">");
    }
    falls_back_ = true;
  }

  void cut(std::string_view text, std::vector<PieceToken>& out) const {
    std::vector<Step> steps(text.size() + 1);
    for (std::size_t at = 0; at < text.size(); at += width_of(text[at]))
      reach_from(text, at, steps);
    std::vector<PieceToken> tokens;  // Last first.
    for (std::size_t end = text.size(); end > 0;) {
      const Step& step = steps[end];
      const auto begin = static_cast<std::uint32_t>(step.begin);
      if (step.id == unknown_ && !tokens.empty() && tokens.back().id == unknown_) {
        tokens.back().begin = begin;
      } else {
        tokens.push_back({step.id, begin, static_cast<std::uint32_t>(end)});
      }
      end = begin;
    }
    for (auto token = tokens.rbegin(); token != tokens.rend(); ++token) append(text, *token, out);
  }

  // Updates the steps that one token reaches from `at`.
  void reach_from(std::string_view text, std::size_t at, std::vector<Step>& steps) const {
    constexpr double kPenalty = 10;
    const double here = steps[at].score;
    const std::size_t width = width_of(text[at]);
    bool has_single = false;
    const auto reach = [&](std::size_t end, std::uint32_t id, double score) {
      Step& step = steps[end];
      if (step.begin >= 0 && score <= step.score) return;
      step = {score, id, static_cast<std::int64_t>(at)};
    };
    tree_.each_prefix(text.substr(at), [&](std::size_t bytes, std::uint32_t id) {
      reach(at + bytes, id, scores_[id] + here);
      has_single = has_single || bytes == width;
    });
    if (has_single) return;
    if (unknown_ == kNoId) refuse_unknown(text.substr(at, width), "it names no unk_id");
    reach(at + width, unknown_, lowest_ - kPenalty + here);
  }

  // Appends `token`. An unknown text becomes one token per byte if every byte of it has a token.
  void append(std::string_view text, PieceToken token, std::vector<PieceToken>& out) const {
    const auto part = text.substr(token.begin, token.end - token.begin);
    token.id = vocabulary_.find(part);
    if (token.id != kNoId && !is_unmatched_.empty() && is_unmatched_[token.id]) token.id = kNoId;
    const auto is_token = [&](char byte) {
      return bytes_[static_cast<unsigned char>(byte)] != kNoId;
    };
    if (token.id == kNoId && falls_back_ && std::ranges::all_of(part, is_token)) {
      for (const char byte : part) {
        out.push_back({bytes_[static_cast<unsigned char>(byte)], token.begin, token.end});
      }
      return;
    }
    if (token.id == kNoId) token.id = unknown_;
    out.push_back(token);
  }

  std::vector<double> scores_;
  double lowest_ = 0;
  std::uint32_t unknown_ = kNoId;
  bool falls_back_ = false;
  std::vector<bool> is_unmatched_;  // By id; empty if texts match every token.
  std::array<std::uint32_t, 256> bytes_{};
  PrefixTree tree_;
};

}  // namespace

std::unique_ptr<Model> read_unigram(const JsonView& json) {
  return std::make_unique<Unigram>(json);
}

}  // namespace accelerate::detail
