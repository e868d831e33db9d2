// What makes tokens of a piece of text: WordPiece, BPE, Unigram, WordLevel.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/tokenizers/json_view.h"
#include "accelerate/tokenizers/models/word_table.h"

namespace accelerate::detail {

/// A token of a piece, from byte `begin` up to `end` of it.
struct PieceToken {
  std::uint32_t id, begin, end;
};

/// What a model remembers between pieces: tokens of the words it has met. For one thread at a time.
class Scratch {
 public:
  virtual ~Scratch() = default;
};

/// Immutable, so that several threads may use one model.
class Model {
 public:
  explicit Model(const JsonView& json) : place_(json.place()) {}
  virtual ~Model() = default;

  [[nodiscard]] virtual std::unique_ptr<Scratch> scratch() const = 0;
  /// Appends the tokens of `piece`, well-formed UTF-8, to `out`. Throws ConfigError when it needs
  /// an unknown token that the vocabulary lacks.
  virtual void tokenize(std::string_view piece, Scratch& scratch,
                        std::vector<PieceToken>& out) const = 0;
  /// Whether the piece may be given as bytes where a pre-tokenizer ByteLevel would have spelled
  /// them as characters.
  [[nodiscard]] virtual bool takes_bytes() const { return false; }
  virtual void tokenize_bytes(std::string_view piece, Scratch& scratch,
                              std::vector<PieceToken>& out) const;

  [[nodiscard]] const Vocabulary& vocabulary() const { return vocabulary_; }
  /// Whether an unknown token is spelled as the text it stands for, as Unigram's is.
  [[nodiscard]] virtual std::optional<std::uint32_t> spelled_as_text() const {
    return std::nullopt;
  }

 protected:
  /// Throws ConfigError: `text` needs an unknown token; `lack` says what is missing.
  [[noreturn]] void refuse_unknown(std::string_view text, const std::string& lack) const;

  Vocabulary vocabulary_;

 private:
  std::string place_;
};

/// The model of a tokenizer.json. Throws ConfigError for what is damaged, contradictory or unknown.
[[nodiscard]] std::unique_ptr<Model> read_model(const JsonView& json);

/// The type of that model, which old files do not name.
[[nodiscard]] std::string model_type(const JsonView& json);

// clang-format off
[[nodiscard]] std::unique_ptr<Model> read_word_piece(const JsonView& json);
[[nodiscard]] std::unique_ptr<Model> read_bpe(const JsonView& json);
[[nodiscard]] std::unique_ptr<Model> read_unigram(const JsonView& json);
[[nodiscard]] std::unique_ptr<Model> read_word_level(const JsonView& json);
// clang-format on

/// Fills `vocabulary` from a map of words to ids.
void read_vocabulary(const JsonView& json, Vocabulary& vocabulary);

}  // namespace accelerate::detail
