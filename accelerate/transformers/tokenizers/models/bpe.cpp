// Byte-pair encoding: characters, merged two by two in the order in which training found them.
// Source: Sennrich et al., "Neural Machine Translation of Rare Words with Subword Units" (2016);
// tokenizers/src/models/bpe, whose handling of unknown characters is kept.
#include <algorithm>
#include <array>
#include <optional>

#include "accelerate/transformers/tokenizers/models/blank_cuts.h"
#include "accelerate/transformers/tokenizers/models/merges.h"
#include "accelerate/transformers/tokenizers/models/word_cache.h"
#include "accelerate/transformers/tokenizers/text/byte_letters.h"
#include "accelerate/transformers/tokenizers/unicode/code_points.h"

namespace accelerate::detail {
namespace {

struct Caches : Scratch {
  WordCache texts, bytes;
  std::vector<Symbol> symbols;
};

class Bpe : public Model {
 public:
  explicit Bpe(const JsonView& json)
      : Model(json),
        prefix_(json.text("continuing_subword_prefix", "")),
        suffix_(json.text("end_of_word_suffix", "")),
        unknown_text_(json.text("unk_token", "")),
        fuses_unknown_(json.boolean("fuse_unk", false)),
        falls_back_(json.boolean("byte_fallback", false)),
        ignores_merges_(json.boolean("ignore_merges", false)) {
    if (const auto dropout = json.find("dropout"); dropout && dropout->number() != 0) {
      dropout->refuse(
          "is " + std::to_string(dropout->number()) +
          "; dropout of merges is for training a model and is not supported. Set it to null");
    }
    read_vocabulary(json.at("vocab"), vocabulary_);
    find_characters();
    find_bytes();
    has_cuts_ = prefix_.empty() && suffix_.empty() && vocabulary_.find(BlankCuts::kBlank) != kNoId;
    read_merges(json.at("merges"));
  }

  [[nodiscard]] std::unique_ptr<Scratch> scratch() const override {
    return std::make_unique<Caches>();
  }

  void tokenize(std::string_view piece, Scratch& scratch,
                std::vector<PieceToken>& out) const override {
    if (const auto id = whole(vocabulary_.words(), piece)) {
      out.push_back({*id, 0, static_cast<std::uint32_t>(piece.size())});
      return;
    }
    auto& caches = static_cast<Caches&>(scratch);
    WordCache& cache = caches.texts;
    const auto merge_word = [&](std::string_view word, auto& to) {
      read_symbols(word, caches.symbols);
      merge(caches.symbols, to);
      return true;
    };
    if (piece.size() <= WordCache::kLongest || !has_cuts_)
      return cache.look_up(piece, out, merge_word);
    // As in the original, what has no token does not count in the places of tokens behind it.
    std::uint32_t done = 0;
    std::size_t end = cuts_.end_of_part(piece, 0);
    auto next = cache.expect(piece.substr(0, end));
    while (!next.word.empty()) {
      const auto part = next;
      const std::size_t begin = end;
      if (begin < piece.size()) end = cuts_.end_of_part(piece, begin);
      next = cache.expect(piece.substr(begin, end - begin));
      const std::size_t first = out.size();
      cache.look_up(part, out, merge_word);
      for (std::size_t i = first; i < out.size(); ++i) {
        out[i].begin += done;
        out[i].end += done;
      }
      if (out.size() > first) done = out.back().end;
    }
  }

  [[nodiscard]] bool takes_bytes() const override { return takes_bytes_; }

  void tokenize_bytes(std::string_view piece, Scratch& scratch,
                      std::vector<PieceToken>& out) const override {
    if (!takes_bytes_) return Model::tokenize_bytes(piece, scratch, out);
    if (const auto id = whole(byte_words_, piece)) {
      out.push_back({*id, 0, static_cast<std::uint32_t>(piece.size())});
      return;
    }
    auto& caches = static_cast<Caches&>(scratch);
    caches.bytes.look_up(piece, out, [&](std::string_view word, auto& to) {
      caches.symbols.clear();
      for (const char byte : word)
        caches.symbols.push_back({letters_[static_cast<unsigned char>(byte)], 1});
      merge(caches.symbols, to);
      return true;
    });
  }

 private:
  void read_merges(const JsonView& json) {
    std::uint32_t rank = 0;
    std::string joined;
    merges_.reserve(json.size());
    for (const simdjson::dom::element item : json.list()) {
      const auto [left, right] = parts_of(json, item, rank);
      joined.assign(left).append(right.substr(std::min(prefix_.size(), right.size())));
      const std::uint32_t left_id = id_in_merge(json, rank, left);
      const std::uint32_t right_id = id_in_merge(json, rank, right);
      merges_.add(left_id, right_id, {rank, id_in_merge(json, rank, joined)});
      note_join(left, left_id, right);
      ++rank;
    }
  }

  // A token of a byte or of unknown characters does not tell what it stands for.
  void note_join(std::string_view left, std::uint32_t left_id, std::string_view right) {
    if (!right.starts_with(BlankCuts::kBlank)) return;
    const bool is_plain =
        left != unknown_text_ && std::ranges::find(fallback_, left_id) == fallback_.end();
    has_cuts_ = has_cuts_ && is_plain;
    cuts_.join(left, right);
  }

  // A merge is ["a", "b"], or "a b" in older files.
  static std::pair<std::string_view, std::string_view> parts_of(const JsonView& json,
                                                                simdjson::dom::element item,
                                                                std::uint32_t rank) {
    simdjson::dom::array pair;
    std::string_view left, right, line;
    if (item.get(pair) == simdjson::SUCCESS) {
      if (pair.size() == 2 && pair.at(0).get(left) == simdjson::SUCCESS &&
          pair.at(1).get(right) == simdjson::SUCCESS) {
        return {left, right};
      }
    } else if (item.get(line) == simdjson::SUCCESS) {
      const std::size_t blank = line.find(' ');
      if (blank != std::string_view::npos && line.find(' ', blank + 1) == std::string_view::npos) {
        return {line.substr(0, blank), line.substr(blank + 1)};
      }
    }
    json.refuse("holds " + simdjson::minify(item) + " as merge " + std::to_string(rank) +
                "; allowed are two tokens");
  }

  std::uint32_t id_in_merge(const JsonView& json, std::uint32_t rank,
                            std::string_view token) const {
    const std::uint32_t id = vocabulary_.find(token);
    if (id != kNoId) return id;
    json.refuse("names the token '" + std::string(token) + "' in merge " + std::to_string(rank) +
                ", which is not in the vocabulary");
  }

  // Looks up the words of one character of up to three bytes.
  void find_characters() {
    const WordTable& words = vocabulary_.words();
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::string_view word = words.word(i);
      if (word.empty() || word.size() > 3 || word.size() != width_of(word[0])) continue;
      std::size_t at = 0;
      characters_[next_code_point(word, at)] = words.id(i);
    }
  }

  void find_bytes() {
    constexpr char kDigits[] = "0123456789ABCDEF";
    takes_bytes_ = prefix_.empty() && suffix_.empty();
    for (unsigned byte = 0; byte < 256; ++byte) {
      letters_[byte] = vocabulary_.find(to_utf8(byte_letters()[byte]));
      fallback_[byte] =
          vocabulary_.find(std::string("<0x") + kDigits[byte >> 4] + kDigits[byte & 15] + ">");
      takes_bytes_ = takes_bytes_ && letters_[byte] != kNoId;
    }
    if (!takes_bytes_ || !ignores_merges_) return;
    const WordTable& words = vocabulary_.words();
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (const auto bytes = from_byte_letters(words.word(i))) byte_words_.add(*bytes, words.id(i));
    }
  }

  [[nodiscard]] std::optional<std::uint32_t> whole(const WordTable& words,
                                                   std::string_view piece) const {
    if (!ignores_merges_) return std::nullopt;
    const std::uint32_t id = words.find(piece);
    if (id == kNoId) return std::nullopt;
    return id;
  }

  // An unknown character is held back, so that the next one can be fused with it. As in the
  // original, the bytes of a character that falls back to bytes overtake it, and unknown characters
  // vanish when no unknown token is named.
  void read_symbols(std::string_view word, std::vector<Symbol>& symbols) const {
    symbols.clear();
    std::string buffer;
    std::optional<Symbol> unknown;
    const auto flush = [&] {
      if (unknown) symbols.push_back(*unknown);
      unknown.reset();
    };
    for (std::size_t begin = 0, end = 0; begin < word.size(); begin = end) {
      end = begin + width_of(word[begin]);
      const auto bytes = static_cast<std::uint32_t>(end - begin);
      const std::string_view text = spelled(word, begin, end, buffer);
      if (const std::uint32_t id = id_of_character(text); id != kNoId) {
        flush();
        symbols.push_back({id, bytes});
      } else if (!falls_back_ || !append_bytes(text, symbols)) {
        if (unknown_text_.empty()) continue;
        if (unknown && fuses_unknown_) {
          unknown->bytes += bytes;
        } else {
          flush();
          unknown = Symbol{unknown_id(text), bytes};
        }
      }
    }
    flush();
  }

  // Returns a character as the vocabulary spells it; `buffer` holds it if it is spelled differently.
  [[nodiscard]] std::string_view spelled(std::string_view word, std::size_t begin, std::size_t end,
                                         std::string& buffer) const {
    const std::string_view character = word.substr(begin, end - begin);
    if (prefix_.empty() && suffix_.empty()) return character;
    buffer.assign(begin > 0 ? prefix_ : "").append(character);
    if (end == word.size()) buffer += suffix_;
    return buffer;
  }

  [[nodiscard]] std::uint32_t id_of_character(std::string_view text) const {
    if (text.size() > 3 || text.size() != width_of(text[0])) return vocabulary_.find(text);
    std::size_t at = 0;
    return characters_[next_code_point(text, at)];
  }

  bool append_bytes(std::string_view text, std::vector<Symbol>& symbols) const {
    const auto token = [&](char byte) { return fallback_[static_cast<unsigned char>(byte)]; };
    if (!std::ranges::all_of(text, [&](char byte) { return token(byte) != kNoId; })) return false;
    for (const char byte : text) symbols.push_back({token(byte), 1});
    return true;
  }

  [[nodiscard]] std::uint32_t unknown_id(std::string_view text) const {
    const std::uint32_t id = vocabulary_.find(unknown_text_);
    if (id != kNoId) return id;
    refuse_unknown(text, "its unknown token '" + unknown_text_ + "' is not in the vocabulary");
  }

  void merge(std::vector<Symbol>& symbols, std::vector<PieceToken>& out) const {
    merges_.apply(symbols);
    std::uint32_t begin = 0;
    for (const auto [id, bytes] : symbols) {
      out.push_back({id, begin, begin + bytes});
      begin += bytes;
    }
  }

  std::string prefix_, suffix_, unknown_text_;
  bool fuses_unknown_, falls_back_, ignores_merges_;
  Merges merges_;
  std::array<std::uint32_t, 256> letters_{}, fallback_{};  // kNoId where there is none
  std::vector<std::uint32_t> characters_ = std::vector<std::uint32_t>(0x10000, kNoId);
  bool takes_bytes_ = false, has_cuts_ = false;
  BlankCuts cuts_;
  WordTable byte_words_;  // The words that are spelled in letters for bytes, as bytes.
};

}  // namespace

std::unique_ptr<Model> read_bpe(const JsonView& json) {
  return std::make_unique<Bpe>(json);
}

}  // namespace accelerate::detail
