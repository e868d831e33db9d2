// Cuts a text into the tokens with the greatest sum of scores, by dynamic programming.
// Source: Kudo, "Subword Regularization" (2018); tokenizers/src/models/unigram, which breaks ties
// in the same way.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "accelerate/transformers/tokenizers/models/blank_cuts.h"
#include "accelerate/transformers/tokenizers/models/unigram_scores.h"
#include "accelerate/transformers/tokenizers/models/word_cache.h"
#include "accelerate/transformers/tokenizers/models/word_trie.h"
#include "accelerate/transformers/tokenizers/unicode/code_points.h"

namespace accelerate::detail {
namespace {

// The best way to reach a place of the text.
struct Step {
  double score = 0;
  std::uint32_t id = 0;
  std::uint32_t begin = kNotReached;
  static constexpr std::uint32_t kNotReached = kNoId;
};

struct Memory : Scratch {
  // Tokens of whole pieces, and of parts of pieces that are the same wherever the part stands.
  WordCache pieces, parts;
  std::vector<Step> steps;
  std::vector<PieceToken> last_first;
};

// The sum of scores up to a part of a piece, and whether the part's tokens depend on it.
struct Sum {
  double score = 0;
  bool decides = false;
};

class Unigram : public Model {
 public:
  Unigram(const JsonView& json, std::string_view document) : Model(json) {
    read_words(json.at("vocab"));
    if (auto scores = original_scores(document); scores.size() == scores_.size())
      scores_ = std::move(scores);
    lowest_ = *std::min_element(scores_.begin(), scores_.end());
    if (const auto unknown = json.find("unk_id")) unknown_ = unknown->id();
    if (unknown_ != kNoId && unknown_ >= scores_.size()) {
      json.refuse("names " + std::to_string(unknown_) + " as its unknown token; it has " +
                  std::to_string(scores_.size()) + " tokens");
    }
    if (json.boolean("byte_fallback", false)) find_bytes();
    trie_.emplace(vocabulary_.words());
    if (const auto unmatched = json.find("unmatched")) forget(*unmatched);
    find_cuts();
  }

  [[nodiscard]] std::unique_ptr<Scratch> scratch() const override {
    return std::make_unique<Memory>();
  }

  void tokenize(std::string_view piece, Scratch& scratch,
                std::vector<PieceToken>& out) const override {
    auto& memory = static_cast<Memory&>(scratch);
    if (piece.size() > WordCache::kLongest && has_cuts_) return tokenize_parts(piece, memory, out);
    memory.pieces.look_up(piece, out, [&](std::string_view text, auto& to) {
      Sum sum;
      cut(text, sum, memory, to);
      return true;
    });
  }

  [[nodiscard]] std::optional<std::uint32_t> spelled_as_text() const override {
    if (unknown_ == kNoId) return std::nullopt;
    return unknown_;
  }

 private:
  void read_words(const JsonView& words) {
    for (const simdjson::dom::element item : words.list()) {
      simdjson::dom::array pair;
      std::string_view word;
      double score = 0;
      if (item.get(pair) != simdjson::SUCCESS || pair.size() != 2 ||
          pair.at(0).get(word) != simdjson::SUCCESS || pair.at(1).get(score) != simdjson::SUCCESS) {
        JsonView(item, words.place() + "[" + std::to_string(scores_.size()) + "]")
            .refuse("is " + simdjson::minify(item) + "; allowed are a token and its score");
      }
      vocabulary_.append(word);
      scores_.push_back(score);
    }
    if (scores_.empty()) words.refuse("is empty");
  }

  // Lets texts not match the tokens of these ids. A key of ours, for pieces that SentencePiece knows
  // by their ids alone; Python's reader passes over it.
  void forget(const JsonView& ids) {
    is_unmatched_.resize(scores_.size());
    ids.each([&](const JsonView& id) {
      if (id.id() >= scores_.size())
        ids.refuse("holds " + std::to_string(id.id()) + ", which is the id of no token");
      is_unmatched_[id.id()] = true;
    });
  }

  [[nodiscard]] bool is_unmatched(std::uint32_t id) const {
    return !is_unmatched_.empty() && is_unmatched_[id];
  }

  void find_bytes() {
    constexpr char kDigits[] = "0123456789ABCDEF";
    for (unsigned byte = 0; byte < 256; ++byte) {
      bytes_[byte] =
          vocabulary_.find(std::string("<0x") + kDigits[byte >> 4] + kDigits[byte & 15] + ">");
    }
    falls_back_ = true;
  }

  // No token may cross a cut, nor an unknown text: so the blank must be a token.
  void find_cuts() {
    const std::uint32_t blank = vocabulary_.find(BlankCuts::kBlank);
    has_cuts_ = blank != kNoId && blank != unknown_;
    const WordTable& words = vocabulary_.words();
    for (std::size_t i = 0; i < words.size(); ++i) cuts_.add_token(words.word(i));
  }

  // Sums are rounded, and so depend on the text before. Where ways to cut a part differ by less than
  // rounding could, the part is cut again each time.
  void tokenize_parts(std::string_view piece, Memory& memory, std::vector<PieceToken>& out) const {
    constexpr double kGreatestSum = 1e9;
    Sum sum;
    for (std::size_t begin = 0, end = 0; begin < piece.size(); begin = end) {
      end = cuts_.end_of_part(piece, begin);
      const std::size_t first = out.size();
      bool is_new = false;
      const auto cut_part = [&](std::string_view part, auto& to) {
        is_new = true;
        sum.decides = false;
        cut(part, sum, memory, to);
        return !sum.decides;
      };
      const auto part = piece.substr(begin, end - begin);
      if (std::abs(sum.score) < kGreatestSum)
        memory.parts.look_up(part, out, cut_part);
      else
        cut_part(part, out);
      for (std::size_t i = first; i < out.size(); ++i) {
        if (!is_new) sum.score = scores_[out[i].id] + sum.score;
        out[i].begin += static_cast<std::uint32_t>(begin);
        out[i].end += static_cast<std::uint32_t>(begin);
      }
    }
  }

  // Appends the tokens of `text`, and adds their scores to `sum`.
  void cut(std::string_view text, Sum& sum, Memory& memory, std::vector<PieceToken>& out) const {
    std::vector<Step>& steps = memory.steps;
    steps.assign(text.size() + 1, {});
    steps[0].score = sum.score;
    for (std::size_t at = 0; at < text.size(); at += width_of(text[at]))
      sum.decides |= reach_from(text, at, steps);
    sum.score = steps[text.size()].score;
    std::vector<PieceToken>& tokens = memory.last_first;
    tokens.clear();
    for (std::size_t end = text.size(); end > 0;) {
      const Step& step = steps[end];
      const std::uint32_t begin = step.begin;
      if (step.id == unknown_ && !tokens.empty() && tokens.back().id == unknown_) {
        tokens.back().begin = begin;
      } else {
        tokens.push_back({step.id, begin, static_cast<std::uint32_t>(end)});
      }
      end = begin;
    }
    for (auto token = tokens.rbegin(); token != tokens.rend(); ++token) append(text, *token, out);
  }

  // Updates the steps that one token reaches from `at`. Returns whether two sums are so close that
  // rounding may decide between them, or a character is unknown, whose tokens do not tell their sum.
  bool reach_from(std::string_view text, std::size_t at, std::vector<Step>& steps) const {
    constexpr double kPenalty = 10, kClose = 1e-4;
    const double here = steps[at].score;
    const std::size_t width = width_of(text[at]);
    bool has_single = false, is_close = false;
    const auto reach = [&](std::size_t end, std::uint32_t id, double score) {
      Step& step = steps[end];
      if (step.begin != Step::kNotReached) {
        is_close = is_close || std::abs(score - step.score) < kClose;
        if (score <= step.score) return;
      }
      step = {score, id, static_cast<std::uint32_t>(at)};
    };
    trie_->each_prefix(text.substr(at), [&](std::size_t bytes, std::uint32_t id) {
      if (is_unmatched(id)) return;
      reach(at + bytes, id, scores_[id] + here);
      has_single = has_single || bytes == width;
    });
    if (has_single) return is_close;
    if (unknown_ == kNoId) refuse_unknown(text.substr(at, width), "it names no unk_id");
    reach(at + width, unknown_, lowest_ - kPenalty + here);
    return true;
  }

  // Appends `token`. An unknown text becomes one token per byte if every byte of it has a token.
  void append(std::string_view text, PieceToken token, std::vector<PieceToken>& out) const {
    if (token.id != unknown_) return out.push_back(token);
    const auto part = text.substr(token.begin, token.end - token.begin);
    token.id = vocabulary_.find(part);
    if (token.id != kNoId && is_unmatched(token.id)) token.id = kNoId;
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
  bool falls_back_ = false, has_cuts_ = false;
  std::vector<bool> is_unmatched_;  // By id; empty if texts match every token.
  std::array<std::uint32_t, 256> bytes_{};
  BlankCuts cuts_;
  std::optional<WordTrie> trie_;
};

}  // namespace

std::unique_ptr<Model> read_unigram(const JsonView& json, std::string_view document) {
  return std::make_unique<Unigram>(json, document);
}

}  // namespace accelerate::detail
