// What a tokenizer makes of texts: columns of integers by name, one row a text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accelerate/transformers/tokenizers/encoding.h"

namespace accelerate::detail {

// What Transformers changes in a text after it has been decoded.

/// Removes the spaces that WordPiece puts before punctuation.
[[nodiscard]] std::string cleaned_up(std::string text);
/// Makes spaces of the ends of words, "</w>", and strips the text, as CLIPTokenizer does, whose
/// decoder leaves them in.
[[nodiscard]] std::string without_word_ends(std::string text);

}  // namespace accelerate::detail

namespace accelerate {

/// How the labels of words become labels of tokens.
struct LabelAlignment {
  /// Every token of a word has the word's label; else its first token alone.
  bool all_tokens = false;
  /// The label of all other tokens, which losses and metrics leave out.
  std::int64_t ignored = -100;
};

/// Named columns, in the order of insertion: "input_ids", perhaps "token_type_ids",
/// "attention_mask" and others that were asked for. A value type without LibTorch; the collators in
/// datasets/ make tensors of it.
class BatchEncoding {
 public:
  using Row = std::vector<std::int64_t>;
  /// One row a text.
  using Column = std::vector<Row>;

  BatchEncoding() = default;
  /// Throws UsageError when columns differ in their number of rows.
  explicit BatchEncoding(std::vector<std::pair<std::string, Column>> columns,
                         std::vector<Encoding> encodings = {});

  /// Throws UsageError for an unknown name; the message lists the names of the columns.
  [[nodiscard]] const Column& operator[](std::string_view name) const;
  [[nodiscard]] bool contains(std::string_view name) const;
  [[nodiscard]] std::vector<std::string> keys() const;
  [[nodiscard]] const std::vector<std::pair<std::string, Column>>& columns() const {
    return columns_;
  }
  [[nodiscard]] const Column& input_ids() const { return (*this)["input_ids"]; }

  /// The number of rows: one per text, or more if overflowing tokens have their own rows.
  [[nodiscard]] std::size_t size() const {
    return columns_.empty() ? 0 : columns_.front().second.size();
  }
  /// Replaces a column, or adds it at the end. Throws UsageError if it has another number of rows.
  void set(std::string_view name, Column column);

  /// The tokens, offsets and words of each row; empty if PreTrainedTokenizer::pad() padded rows.
  [[nodiscard]] const std::vector<Encoding>& encodings() const { return encodings_; }
  [[nodiscard]] const std::vector<std::string>& tokens(std::size_t row = 0) const;
  /// The word of each token, kNone for special tokens.
  [[nodiscard]] const std::vector<std::int32_t>& word_ids(std::size_t row = 0) const;
  /// The text of each token: 0, 1 for the second text of a pair, kNone for special tokens.
  [[nodiscard]] const std::vector<std::int32_t>& sequence_ids(std::size_t row = 0) const;
  /// The token that a character belongs to; nullopt for a space between tokens. `sequence` is 1 for
  /// the second text of a pair.
  [[nodiscard]] std::optional<std::size_t> char_to_token(std::size_t row, std::uint32_t character,
                                                         std::int32_t sequence = 0) const;
  /// The characters of a token; nullopt for special tokens.
  [[nodiscard]] std::optional<Offsets> token_to_chars(std::size_t row, std::size_t token) const;
  /// Tokens [first, last) of a word; nullopt if it has none.
  [[nodiscard]] std::optional<std::pair<std::size_t, std::size_t>> word_to_tokens(
      std::size_t row, std::int32_t word, std::int32_t sequence = 0) const;
  /// The text of a token, as sequence_ids() gives it; nullopt for special tokens.
  [[nodiscard]] std::optional<std::int32_t> token_to_sequence(std::size_t row,
                                                              std::size_t token) const;
  [[nodiscard]] std::optional<std::int32_t> token_to_word(std::size_t row, std::size_t token) const;
  /// The characters of a word; nullopt if it has no tokens. Of texts that were given as words they
  /// count from where the word begins.
  [[nodiscard]] std::optional<Offsets> word_to_chars(std::size_t row, std::int32_t word,
                                                     std::int32_t sequence = 0) const;
  [[nodiscard]] std::optional<std::int32_t> char_to_word(std::size_t row, std::uint32_t character,
                                                         std::int32_t sequence = 0) const;
  /// Returns one label a token for texts that were given as words (is_split_into_words): the label
  /// of its word at the first token of each word, `ignored` at the other tokens, at special tokens
  /// and in the second text of a pair. `labels` has one row a text and one label a word; rows of
  /// overflowing tokens find their text by overflow_to_sample_mapping(). Throws UsageError for
  /// another number of rows, and for a word without a label.
  [[nodiscard]] Column align_labels(const Column& labels,
                                    const LabelAlignment& alignment = {}) const;
  /// The number of the text that each row comes from; empty without return_overflowing_tokens.
  [[nodiscard]] const Row& overflow_to_sample_mapping() const { return samples_; }
  void set_overflow_to_sample_mapping(Row samples) { samples_ = std::move(samples); }

 private:
  [[nodiscard]] const Encoding& encoding(std::size_t row) const;
  /// Throws UsageError if the row has no such token.
  [[nodiscard]] const Encoding& encoding_with(std::size_t row, std::size_t token) const;

  std::vector<std::pair<std::string, Column>> columns_;
  std::vector<Encoding> encodings_;
  Row samples_;
};

}  // namespace accelerate
