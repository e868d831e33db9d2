// Models make tokens of a piece of text: WordPiece, BPE, Unigram, WordLevel.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/transformers/tokenizers/json_view.h"
#include "accelerate/transformers/tokenizers/models/word_table.h"

namespace accelerate::detail {

/// A token that stands for the bytes from `begin` up to `end` of its piece.
struct PieceToken {
  std::uint32_t id, begin, end;
};

/// What a model remembers between pieces: the tokens of words that it has met. For one thread at a
/// time.
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
  /// Appends the tokens of `piece`, well-formed UTF-8, to `out`. Throws ConfigError when `piece`
  /// needs the unknown token and the vocabulary has none.
  virtual void tokenize(std::string_view piece, Scratch& scratch,
                        std::vector<PieceToken>& out) const = 0;
  /// Whether the model takes the bytes of a piece as they are, by tokenize_bytes(). Then the
  /// pre-tokenizer ByteLevel need not spell them as letters.
  [[nodiscard]] virtual bool takes_bytes() const { return false; }
  virtual void tokenize_bytes(std::string_view piece, Scratch& scratch,
                              std::vector<PieceToken>& out) const;

  [[nodiscard]] const Vocabulary& vocabulary() const { return vocabulary_; }
  /// Returns the id of the unknown token if it is spelled as the text it stands for, as in Unigram.
  [[nodiscard]] virtual std::optional<std::uint32_t> spelled_as_text() const {
    return std::nullopt;
  }

 protected:
  /// Throws ConfigError: `text` needs the unknown token; `lack` says what is missing.
  [[noreturn]] void refuse_unknown(std::string_view text, const std::string& lack) const;

  Vocabulary vocabulary_;

 private:
  std::string place_;
};

/// Reads the model of a tokenizer.json. `document` is the text of the whole file, in which scores are
/// looked up to round them as the original does; empty to round them to the nearest double. Throws
/// ConfigError if the model is damaged, contradictory or unknown.
[[nodiscard]] std::unique_ptr<Model> read_model(const JsonView& json, std::string_view document);

/// Returns the model's type. Old files do not name it: there the keys tell.
[[nodiscard]] std::string model_type(const JsonView& json);

// clang-format off
[[nodiscard]] std::unique_ptr<Model> read_word_piece(const JsonView& json);
[[nodiscard]] std::unique_ptr<Model> read_bpe(const JsonView& json);
[[nodiscard]] std::unique_ptr<Model> read_unigram(const JsonView& json, std::string_view document);
[[nodiscard]] std::unique_ptr<Model> read_word_level(const JsonView& json);
// clang-format on

/// Fills `vocabulary` from a map of words to ids.
void read_vocabulary(const JsonView& json, Vocabulary& vocabulary);

}  // namespace accelerate::detail
