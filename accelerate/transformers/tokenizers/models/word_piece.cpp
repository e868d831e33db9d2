// Cuts a word from the left, each time at the longest token that the rest begins with.
// Source: "Fast WordPiece Tokenization" describes the result; tokenizers/src/models/wordpiece.
#include "accelerate/transformers/tokenizers/models/word_cache.h"
#include "accelerate/transformers/tokenizers/unicode/code_points.h"

namespace accelerate::detail {
namespace {

class WordPiece : public Model {
 public:
  explicit WordPiece(const JsonView& json)
      : Model(json),
        unknown_text_(json.text("unk_token", "[UNK]")),
        most_characters_(json.count("max_input_chars_per_word", 100)) {
    read_vocabulary(json.at("vocab"), vocabulary_);
    unknown_ = vocabulary_.find(unknown_text_);
    split_continuations(json.text("continuing_subword_prefix", "##"));
  }

  [[nodiscard]] std::unique_ptr<Scratch> scratch() const override {
    return std::make_unique<WordCache>();
  }

  void tokenize(std::string_view piece, Scratch& scratch,
                std::vector<PieceToken>& out) const override {
    static_cast<WordCache&>(scratch).look_up(piece, out, [this](std::string_view word, auto& to) {
      take_apart(word, to);
      return true;
    });
  }

 private:
  // Stores continuations without their prefix, so that no lookup has to put it before the text.
  void split_continuations(std::string_view prefix) {
    const WordTable& words = vocabulary_.words();
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (words.word(i).starts_with(prefix)) {
        continuations_.add(words.word(i).substr(prefix.size()), words.id(i));
      }
    }
  }

  void take_apart(std::string_view word, std::vector<PieceToken>& out) const {
    const std::size_t before = out.size();
    std::size_t begin = 0;
    bool is_known = count_code_points(word) <= most_characters_;
    while (is_known && begin < word.size()) {
      const PieceToken token = longest(word, begin);
      is_known = token.id != kNoId;
      out.push_back(token);
      begin = token.end;
    }
    if (is_known) return;
    if (unknown_ == kNoId) {
      refuse_unknown(word, "its unknown token '" + unknown_text_ + "' is not in the vocabulary");
    }
    out.resize(before);
    out.push_back({unknown_, 0, static_cast<std::uint32_t>(word.size())});
  }

  // Returns the longest token that begins at `begin`; its id is kNoId if there is none.
  [[nodiscard]] PieceToken longest(std::string_view word, std::size_t begin) const {
    const WordTable& table = begin == 0 ? vocabulary_.words() : continuations_;
    std::size_t end = std::min(word.size(), begin + table.longest());
    while (end < word.size() && end > begin && !begins_character(word[end])) --end;
    while (end > begin) {
      const std::uint32_t id = table.find(word.substr(begin, end - begin));
      if (id != kNoId)
        return {id, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)};
      (void)previous_code_point(word, end);
    }
    return {kNoId, 0, 0};
  }

  std::string unknown_text_;
  std::uint32_t unknown_ = kNoId;
  std::size_t most_characters_;
  WordTable continuations_;
};

}  // namespace

std::unique_ptr<Model> read_word_piece(const JsonView& json) {
  return std::make_unique<WordPiece>(json);
}

}  // namespace accelerate::detail
