// Text to tokens and back: the Tokenizer of the Python package `tokenizers`, from its
// tokenizer.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accelerate/transformers/tokenizers/added_token.h"
#include "accelerate/transformers/tokenizers/encoding.h"

namespace accelerate {

/// A text or a pair of texts. They must live as long as the call.
struct TextInput {
  std::string_view text;
  std::optional<std::string_view> pair = std::nullopt;
};

/// A text or a pair of texts as words, which were cut before. Each word is tokenized by itself: its
/// tokens have the number of the word, and offsets that count from where the word begins.
struct WordsInput {
  std::span<const std::string> text;
  std::optional<std::span<const std::string>> pair = std::nullopt;
};

struct EncodeOptions {
  bool add_special_tokens = true;
  /// Cuts special tokens in a text like any other text, instead of finding them.
  bool split_special_tokens = false;
  bool strict = false;            ///< Throws for malformed UTF-8, instead of using U+FFFD.
  bool offsets_in_bytes = false;  ///< Else in code points, as Python counts.
};

/// How the scores of a Unigram become numbers. The reader of `tokenizers` rounds some of them to a
/// neighbour of the nearest double, which decides between ways to cut a text that are equally good.
enum class ScoreRounding {
  as_original,  ///< As `tokenizers` reads a tokenizer.json.
  nearest       ///< As a tokenizer made in Python from other files has them.
};

/// A value handle: copies share the vocabulary and its added tokens, but each has its own
/// truncation and padding. Several threads may encode at the same time, but not while one calls
/// add_tokens().
class Tokenizer {
 public:
  /// Reads a tokenizer.json. Throws FileError if it cannot be read. Throws ConfigError if it is
  /// damaged, contradictory, or names a component that is not supported.
  [[nodiscard]] static Tokenizer from_file(const std::filesystem::path& file,
                                           ScoreRounding rounding = ScoreRounding::as_original);
  /// Reads the text of a tokenizer.json; `name` stands for the file in messages.
  [[nodiscard]] static Tokenizer from_text(std::string text,
                                           const std::string& name = "tokenizer.json",
                                           ScoreRounding rounding = ScoreRounding::as_original);

  /// Returns the tokens of a text. Malformed UTF-8 becomes U+FFFD, as in Python's
  /// `bytes.decode(errors="replace")`, or throws DataError with EncodeOptions::strict. Throws
  /// UsageError when truncation leaves no room for special tokens.
  [[nodiscard]] Encoding encode(const TextInput& input, const EncodeOptions& options = {}) const;
  [[nodiscard]] Encoding encode(std::string_view text, const EncodeOptions& options = {}) const;
  /// Encodes several texts, on all cores that this process may use, and pads them together.
  [[nodiscard]] std::vector<Encoding> encode_batch(std::span<const TextInput> inputs,
                                                   const EncodeOptions& options = {}) const;

  /// Encodes texts whose words were cut before, as encode_batch() does.
  [[nodiscard]] std::vector<Encoding> encode_words(std::span<const WordsInput> inputs,
                                                   const EncodeOptions& options = {}) const;

  [[nodiscard]] std::string decode(std::span<const std::uint32_t> ids,
                                   bool skip_special_tokens = true) const;
  /// Joins tokens to a text, as decode() does.
  [[nodiscard]] std::string join(std::vector<std::string> tokens) const;

  [[nodiscard]] std::optional<std::uint32_t> token_to_id(std::string_view token) const;
  [[nodiscard]] std::optional<std::string> id_to_token(std::uint32_t id) const;
  [[nodiscard]] std::size_t vocab_size(bool with_added_tokens = true) const;
  /// The number of special tokens that a text or a pair of texts gets.
  [[nodiscard]] std::size_t num_special_tokens_to_add(bool is_pair = false) const;
  /// The model's type as tokenizer.json names it: "BPE", "Unigram", "WordLevel" or "WordPiece".
  [[nodiscard]] const std::string& model_type() const;

  /// Adds new tokens and changes known ones. Returns how many were new. Throws UsageError for a
  /// token that is not UTF-8.
  std::size_t add_tokens(const std::vector<AddedToken>& tokens);
  [[nodiscard]] const std::map<std::uint32_t, AddedToken>& added_tokens() const;

  [[nodiscard]] const std::optional<TruncationOptions>& truncation() const { return truncation_; }
  [[nodiscard]] const std::optional<PaddingOptions>& padding() const { return padding_; }
  void set_truncation(std::optional<TruncationOptions> options) { truncation_ = options; }
  void set_padding(std::optional<PaddingOptions> options) { padding_ = std::move(options); }

  /// Returns a tokenizer.json with all changes that were made since it was read.
  [[nodiscard]] std::string to_text() const;

 private:
  struct Shared;
  explicit Tokenizer(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}
  template <typename Input>
  [[nodiscard]] Encoding encode_unpadded(const Input& input, const EncodeOptions& options) const;
  template <typename Input>
  [[nodiscard]] std::vector<Encoding> encode_all(std::span<const Input> inputs,
                                                 const EncodeOptions& options) const;
  [[nodiscard]] Encoding process(std::vector<Encoding> texts, bool adds_special_tokens) const;
  [[nodiscard]] std::uint32_t next_id() const;

  std::shared_ptr<Shared> shared_;
  std::optional<TruncationOptions> truncation_;
  std::optional<PaddingOptions> padding_;
};

}  // namespace accelerate
