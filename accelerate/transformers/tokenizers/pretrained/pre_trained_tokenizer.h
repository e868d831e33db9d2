// A tokenizer as Transformers has it: the files of a folder, special tokens by name, and a call
// that makes columns for a model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accelerate/transformers/hub/push.h"
#include "accelerate/transformers/tokenizers/pretrained/batch_encoding.h"
#include "accelerate/transformers/tokenizers/tokenizer.h"

namespace accelerate {

/// One text or several. Converts from every type of string, and from lists of strings. With the
/// option is_split_into_words a list of strings is one text as words, and a list of such lists is
/// several.
class Texts {
 public:
  Texts() = default;
  Texts(const char* text) : texts_{text} {}                                             // NOLINT
  Texts(std::string text) : texts_{std::move(text)} {}                                  // NOLINT
  Texts(std::string_view text) : texts_{std::string(text)} {}                           // NOLINT
  Texts(std::vector<std::string> texts) : texts_(std::move(texts)), is_batch_(true) {}  // NOLINT
  Texts(std::initializer_list<std::string> texts) : texts_(texts), is_batch_(true) {}
  Texts(std::vector<std::vector<std::string>> words) : words_(std::move(words)) {}  // NOLINT
  /// Makes `{{"a", "b"}}` ambiguous, which otherwise is one string made of two pointers.
  Texts(std::initializer_list<std::vector<std::string>> words) : words_(words) {}

  [[nodiscard]] const std::vector<std::string>& all() const { return texts_; }
  [[nodiscard]] bool is_batch() const { return is_batch_; }
  /// The texts as words; nullopt if they were given as strings.
  [[nodiscard]] const std::optional<std::vector<std::vector<std::string>>>& words() const {
    return words_;
  }
  /// Whether no text was given, not even an empty list.
  [[nodiscard]] bool is_none() const { return texts_.empty() && !is_batch_ && !words_; }

 private:
  std::vector<std::string> texts_;
  bool is_batch_ = false;
  std::optional<std::vector<std::vector<std::string>>> words_;
};

/// true, false, or one of the words "longest_first", "only_first", "only_second",
/// "do_not_truncate". Throws UsageError for another word.
class Truncation {
 public:
  Truncation() = default;
  Truncation(bool truncates);                                           // NOLINT
  Truncation(std::string_view word);                                    // NOLINT
  Truncation(const char* word) : Truncation(std::string_view(word)) {}  // NOLINT

  /// Whether the caller gave a value.
  [[nodiscard]] bool is_given() const { return is_given_; }
  [[nodiscard]] const std::optional<TruncationStrategy>& strategy() const { return strategy_; }

 private:
  bool is_given_ = false;
  std::optional<TruncationStrategy> strategy_;
};

/// true, false, or one of the words "longest", "max_length", "do_not_pad". Throws UsageError for
/// another word.
class Padding {
 public:
  enum class Strategy { do_not_pad, longest, max_length };
  Padding() = default;
  Padding(bool pads)  // NOLINT
      : strategy_(pads ? Strategy::longest : Strategy::do_not_pad) {}
  Padding(std::string_view word);                                 // NOLINT
  Padding(const char* word) : Padding(std::string_view(word)) {}  // NOLINT

  [[nodiscard]] Strategy strategy() const { return strategy_; }
  /// Whether it was given as a word. Then max_length alone does not truncate, as in Python.
  [[nodiscard]] bool is_word() const { return is_word_; }

 private:
  Strategy strategy_ = Strategy::do_not_pad;
  bool is_word_ = false;
};

/// Options of a call, with Transformers' names and defaults.
struct TokenizerCallOptions {
  /// true: shortens the longer text first, one token at a time. Without `max_length` the limit is
  /// model_max_length(); a tokenizer without that limit truncates nothing.
  Truncation truncation = {};
  Padding padding = {};                        ///< true: to the longest text of the batch.
  std::optional<std::size_t> max_length = {};  ///< In tokens, special ones included.
  Texts text_pair = {};                        ///< A second text for each text.
  /// Texts whose ids become the column "labels"; without any text, the texts to encode.
  Texts text_target = {};
  Texts text_pair_target = {};                        ///< A second text for each text_target.
  std::optional<std::size_t> max_target_length = {};  ///< Of text_target, instead of max_length.
  bool add_special_tokens = true;
  std::size_t stride = 0;  ///< Tokens that an overflowing row shares with the row before.
  /// Texts are lists of words: word_ids() are numbers in these lists, and offsets count from where
  /// the word begins.
  bool is_split_into_words = false;
  std::optional<std::size_t> pad_to_multiple_of = {};
  std::optional<Side> padding_side = {};           ///< Else padding_side().
  std::optional<bool> return_token_type_ids = {};  ///< Else as model_input_names() says.
  std::optional<bool> return_attention_mask = {};  ///< Else as model_input_names() says.
  bool return_overflowing_tokens = false;          ///< Adds rows for what truncation cut off.
  bool return_special_tokens_mask = false;
  bool return_length = false;
  /// Cuts special tokens in a text like any other text. Else as tokenizer_config.json says, where
  /// it is false by default.
  std::optional<bool> split_special_tokens = {};
  /// "pt" and "np" of Python are refused: to_inputs() and the collators make tensors.
  std::string_view return_tensors = {};
  bool verbose = true;       ///< Warns of texts longer than model_max_length().
  bool strict_utf8 = false;  ///< Throws DataError for malformed UTF-8.
};

/// Options of pad().
struct TokenizerPadOptions {
  Padding padding = true;
  std::optional<std::size_t> max_length = {};
  std::optional<std::size_t> pad_to_multiple_of = {};
  std::optional<Side> padding_side = {};
  std::optional<bool> return_attention_mask = {};
};

/// Special tokens by role; nullopt leaves the role's token as it is.
struct SpecialTokens {
  std::optional<AddedToken> bos_token = {}, eos_token = {}, unk_token = {}, sep_token = {};
  std::optional<AddedToken> pad_token = {}, cls_token = {}, mask_token = {};
  std::vector<AddedToken> extra_special_tokens = {};
};

/// A value handle: copies share everything. Several threads may use it at the same time, but not
/// while one changes it by add_tokens(), add_special_tokens() or a setter.
class PreTrainedTokenizer {
 public:
  /// Opens a folder, or a repository of the hub, whose files it fetches by fetch_folder(). Reads
  /// tokenizer.json, or older files: vocab.txt, vocab.json with merges.txt, a SentencePiece model.
  /// Throws ConfigError for files that are damaged or not supported, FileError if the folder holds
  /// no tokenizer, and what fetch_folder() throws.
  [[nodiscard]] static PreTrainedTokenizer from_pretrained(const std::string& name_or_folder,
                                                           const HubOptions& options = {});
  /// Wraps a tokenizer that was made by hand. No special token has a role yet, but for a pad token
  /// that its padding() names.
  explicit PreTrainedTokenizer(Tokenizer tokenizer);

  /// Encodes texts on all cores. Returns the columns that model_input_names() lists, one row per
  /// text. Throws UsageError for options that contradict each other, for padding without a pad
  /// token, if texts and second texts differ in number, if special tokens exceed max_length, for
  /// words without is_split_into_words, and if there is neither a text nor a text_target.
  [[nodiscard]] BatchEncoding operator()(const Texts& text,
                                         const TokenizerCallOptions& options = {}) const;
  /// Returns the ids of one text or pair. Throws UsageError for several.
  [[nodiscard]] std::vector<std::int64_t> encode(const Texts& text,
                                                 const TokenizerCallOptions& options = {}) const;
  /// Returns the tokens of one text or pair, by default without special tokens. Throws UsageError
  /// for several.
  [[nodiscard]] std::vector<std::string> tokenize(const Texts& text,
                                                  const TokenizerCallOptions& options = {
                                                      .add_special_tokens = false}) const;
  /// Pads columns that were encoded without padding: "input_ids", "attention_mask" (made if it is
  /// missing), "token_type_ids" and "special_tokens_mask". Leaves other columns as they are.
  [[nodiscard]] BatchEncoding pad(BatchEncoding batch,
                                  const TokenizerPadOptions& options = {}) const;

  /// Returns the text of `ids`. Unlike Tokenizer::decode() it keeps special tokens by default, as
  /// Transformers does. Cleaning up removes the spaces before punctuation: by default as
  /// tokenizer_config.json says, never for BPE. Leaves out ids that name no token. Throws
  /// UsageError for negative ids.
  [[nodiscard]] std::string decode(std::span<const std::int64_t> ids,
                                   bool skip_special_tokens = false,
                                   std::optional<bool> clean_up_tokenization_spaces = {}) const;
  [[nodiscard]] std::vector<std::string> batch_decode(
      std::span<const std::vector<std::int64_t>> rows, bool skip_special_tokens = false,
      std::optional<bool> clean_up_tokenization_spaces = {}) const;

  /// Returns the token's id. For an unknown token: the id of unk_token, or nullopt without one.
  [[nodiscard]] std::optional<std::int64_t> convert_tokens_to_ids(std::string_view token) const;
  /// Throws UsageError for an unknown token without unk_token.
  [[nodiscard]] std::vector<std::int64_t> convert_tokens_to_ids(
      std::span<const std::string> tokens) const;
  /// Throws UsageError for an id without a token.
  [[nodiscard]] std::vector<std::string> convert_ids_to_tokens(
      std::span<const std::int64_t> ids, bool skip_special_tokens = false) const;
  [[nodiscard]] std::string convert_tokens_to_string(std::vector<std::string> tokens) const;

  /// Adds tokens that are not in the vocabulary, and returns how many were new. The model's
  /// embeddings must then be resized.
  std::size_t add_tokens(const std::vector<AddedToken>& tokens);
  /// Gives special tokens their roles, and adds the new ones. Returns how many were new.
  std::size_t add_special_tokens(const SpecialTokens& tokens);

  // clang-format off
  [[nodiscard]] std::optional<std::string> bos_token() const;
  [[nodiscard]] std::optional<std::string> eos_token() const;
  [[nodiscard]] std::optional<std::string> unk_token() const;
  [[nodiscard]] std::optional<std::string> sep_token() const;
  [[nodiscard]] std::optional<std::string> pad_token() const;
  [[nodiscard]] std::optional<std::string> cls_token() const;
  [[nodiscard]] std::optional<std::string> mask_token() const;
  [[nodiscard]] std::optional<std::int64_t> bos_token_id() const;
  [[nodiscard]] std::optional<std::int64_t> eos_token_id() const;
  [[nodiscard]] std::optional<std::int64_t> unk_token_id() const;
  [[nodiscard]] std::optional<std::int64_t> sep_token_id() const;
  [[nodiscard]] std::optional<std::int64_t> pad_token_id() const;
  [[nodiscard]] std::optional<std::int64_t> cls_token_id() const;
  [[nodiscard]] std::optional<std::int64_t> mask_token_id() const;
  // clang-format on
  [[nodiscard]] std::vector<std::string> extra_special_tokens() const;
  /// Each special token once: the named ones in the order above, then the extra ones.
  [[nodiscard]] std::vector<std::string> all_special_tokens() const;
  [[nodiscard]] std::vector<std::int64_t> all_special_ids() const;
  /// The special tokens by name: "bos_token", …, and names of the model's own ("image_token").
  [[nodiscard]] std::map<std::string, std::string> special_tokens_map() const;
  /// Returns 1 for each special id and 0 for any other.
  [[nodiscard]] std::vector<std::int64_t> get_special_tokens_mask(
      std::span<const std::int64_t> ids) const;

  /// The number of entries of the vocabulary, without added tokens; size() includes them.
  [[nodiscard]] std::size_t vocab_size() const;
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] const std::map<std::uint32_t, AddedToken>& added_tokens_decoder() const;
  [[nodiscard]] std::size_t num_special_tokens_to_add(bool pair = false) const;
  /// nullopt: no limit is known.
  [[nodiscard]] std::optional<std::size_t> model_max_length() const;
  void set_model_max_length(std::optional<std::size_t> length);
  [[nodiscard]] Side padding_side() const;
  void set_padding_side(Side side);
  [[nodiscard]] Side truncation_side() const;
  /// Whether special tokens in a text are text, unless a call says otherwise.
  [[nodiscard]] bool split_special_tokens() const;
  void set_truncation_side(Side side);
  [[nodiscard]] const std::vector<std::string>& model_input_names() const;
  [[nodiscard]] const std::string& name_or_path() const;
  /// The tokenizer that does the work. All copies share its vocabulary.
  [[nodiscard]] const Tokenizer& backend_tokenizer() const;

  /// Makes the folder and writes tokenizer.json and tokenizer_config.json, each whole or not at
  /// all. Python's AutoTokenizer loads the folder. Returns the files' paths. Throws FileError.
  std::vector<std::filesystem::path> save_pretrained(const std::filesystem::path& folder) const;
  /// Uploads what save_pretrained() writes to a repository of the hub, in one commit. Creates the
  /// repository if there is none. Throws what save_pretrained(), create_repo() and upload_folder()
  /// throw.
  CommitInfo push_to_hub(const std::string& repo_id, const PushToHubOptions& options = {}) const;

  /// Not supported: both throw UsageError, which says what to use instead.
  [[noreturn]] void apply_chat_template() const;
  [[noreturn]] void train_new_from_iterator() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// As Python's AutoTokenizer: the files and tokenizer_config.json decide what is made.
struct AutoTokenizer {
  [[nodiscard]] static PreTrainedTokenizer from_pretrained(const std::string& name_or_folder,
                                                           const HubOptions& options = {}) {
    return PreTrainedTokenizer::from_pretrained(name_or_folder, options);
  }
};

}  // namespace accelerate
