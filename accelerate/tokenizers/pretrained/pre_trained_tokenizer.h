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

#include "accelerate/hub/push.h"
#include "accelerate/tokenizers/pretrained/batch_encoding.h"
#include "accelerate/tokenizers/tokenizer.h"

namespace accelerate {

/// One text or several, by whatever a caller has them in.
class Texts {
 public:
  Texts() = default;
  Texts(const char* text) : texts_{text} {}                                             // NOLINT
  Texts(std::string text) : texts_{std::move(text)} {}                                  // NOLINT
  Texts(std::string_view text) : texts_{std::string(text)} {}                           // NOLINT
  Texts(std::vector<std::string> texts) : texts_(std::move(texts)), is_batch_(true) {}  // NOLINT
  Texts(std::initializer_list<std::string> texts) : texts_(texts), is_batch_(true) {}

  [[nodiscard]] const std::vector<std::string>& all() const { return texts_; }
  [[nodiscard]] bool is_batch() const { return is_batch_; }

 private:
  std::vector<std::string> texts_;
  bool is_batch_ = false;
};

/// true, false, or one of the words "longest_first", "only_first", "only_second",
/// "do_not_truncate". Throws UsageError for another word.
class Truncation {
 public:
  Truncation() = default;
  Truncation(bool truncates);                                           // NOLINT
  Truncation(std::string_view word);                                    // NOLINT
  Truncation(const char* word) : Truncation(std::string_view(word)) {}  // NOLINT

  /// Whether a caller said anything at all.
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
  /// Whether it was said in a word: then max_length alone cuts nothing, as in Python.
  [[nodiscard]] bool is_word() const { return is_word_; }

 private:
  Strategy strategy_ = Strategy::do_not_pad;
  bool is_word_ = false;
};

/// Options of a call, with Transformers' names and defaults.
struct TokenizerCallOptions {
  /// true: the longest text first, one token at a time. Without `max_length` cuts to
  /// model_max_length(); a tokenizer that has none then cuts nothing.
  Truncation truncation = {};
  Padding padding = {};                        ///< true: to the longest of the batch.
  std::optional<std::size_t> max_length = {};  ///< In tokens, special ones included.
  Texts text_pair = {};                        ///< A second text for each.
  bool add_special_tokens = true;
  std::size_t stride = 0;  ///< Tokens that overflowing rows share.
  std::optional<std::size_t> pad_to_multiple_of = {};
  std::optional<Side> padding_side = {};           ///< Else padding_side().
  std::optional<bool> return_token_type_ids = {};  ///< Else as model_input_names() says.
  std::optional<bool> return_attention_mask = {};  ///< Else as model_input_names() says.
  bool return_overflowing_tokens = false;          ///< Rows for what truncation cut off.
  bool return_special_tokens_mask = false;
  bool return_length = false;
  bool strict_utf8 = false;  ///< DataError for what is no UTF-8.
};

/// Options of pad().
struct TokenizerPadOptions {
  Padding padding = true;
  std::optional<std::size_t> max_length = {};
  std::optional<std::size_t> pad_to_multiple_of = {};
  std::optional<Side> padding_side = {};
  std::optional<bool> return_attention_mask = {};
};

/// Tokens by the name of their role; nullopt changes nothing.
struct SpecialTokens {
  std::optional<AddedToken> bos_token = {}, eos_token = {}, unk_token = {}, sep_token = {};
  std::optional<AddedToken> pad_token = {}, cls_token = {}, mask_token = {};
  std::vector<AddedToken> extra_special_tokens = {};
};

/// A value handle: copies share everything. Calling it from several threads is safe; changing it
/// (add_tokens and its kin, the setters) while another thread calls is not.
class PreTrainedTokenizer {
 public:
  /// Opens a folder, or a repository of the hub, whose files it fetches by fetch_folder(). Reads
  /// tokenizer.json, or older files: vocab.txt, vocab.json with merges.txt, a SentencePiece model.
  /// Throws ConfigError for damaged files and what is unknown here, FileError for what is missing,
  /// and what fetch_folder() throws.
  [[nodiscard]] static PreTrainedTokenizer from_pretrained(const std::string& name_or_folder,
                                                           const HubOptions& options = {});
  /// Of a tokenizer that was made by hand, without special tokens.
  explicit PreTrainedTokenizer(Tokenizer tokenizer);

  /// The columns that model_input_names() lists, one row a text, on all cores. Throws UsageError
  /// for options that contradict each other, for padding without a pad token, for as many texts as
  /// pairs, and for a max_length that special tokens fill.
  [[nodiscard]] BatchEncoding operator()(const Texts& text,
                                         const TokenizerCallOptions& options = {}) const;
  /// The ids of one text or pair.
  [[nodiscard]] std::vector<std::int64_t> encode(const std::string& text,
                                                 const TokenizerCallOptions& options = {}) const;
  /// The tokens of one text, without special ones.
  [[nodiscard]] std::vector<std::string> tokenize(const std::string& text) const;
  /// Fills up columns that were encoded without padding: "input_ids", "attention_mask" (made if it
  /// is missing), "token_type_ids" and "special_tokens_mask"; leaves other columns as they are.
  [[nodiscard]] BatchEncoding pad(BatchEncoding batch,
                                  const TokenizerPadOptions& options = {}) const;

  /// Text of ids. Unlike Tokenizer::decode() keeps special tokens, as Transformers does. Cleaning
  /// takes the spaces before punctuation away: by default as tokenizer_config.json says, never for
  /// BPE. Ids that name no token are left out. Throws UsageError for negative ids.
  [[nodiscard]] std::string decode(std::span<const std::int64_t> ids,
                                   bool skip_special_tokens = false,
                                   std::optional<bool> clean_up_tokenization_spaces = {}) const;
  [[nodiscard]] std::vector<std::string> batch_decode(
      std::span<const std::vector<std::int64_t>> rows, bool skip_special_tokens = false,
      std::optional<bool> clean_up_tokenization_spaces = {}) const;

  /// An unknown token has the id of unk_token, or nullopt without one.
  [[nodiscard]] std::optional<std::int64_t> convert_tokens_to_ids(std::string_view token) const;
  /// Throws UsageError for an unknown token without unk_token.
  [[nodiscard]] std::vector<std::int64_t> convert_tokens_to_ids(
      std::span<const std::string> tokens) const;
  /// Throws UsageError for an id without a token.
  [[nodiscard]] std::vector<std::string> convert_ids_to_tokens(
      std::span<const std::int64_t> ids, bool skip_special_tokens = false) const;
  [[nodiscard]] std::string convert_tokens_to_string(std::vector<std::string> tokens) const;

  /// Adds tokens that are not in the vocabulary; how many were new. Then resize the embeddings.
  std::size_t add_tokens(const std::vector<AddedToken>& tokens);
  /// Names special tokens, and adds them where they are new.
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
  /// Each once: the named ones in the order above, then the extra ones.
  [[nodiscard]] std::vector<std::string> all_special_tokens() const;
  [[nodiscard]] std::vector<std::int64_t> all_special_ids() const;
  /// By "bos_token", "eos_token", …
  [[nodiscard]] std::map<std::string, std::string> special_tokens_map() const;
  /// 1 for each special id, otherwise 0.
  [[nodiscard]] std::vector<std::int64_t> get_special_tokens_mask(
      std::span<const std::int64_t> ids) const;

  /// Entries of the vocabulary, without and with added tokens.
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
  void set_truncation_side(Side side);
  [[nodiscard]] const std::vector<std::string>& model_input_names() const;
  [[nodiscard]] const std::string& name_or_path() const;
  /// What does the work, with the vocabulary that all copies share.
  [[nodiscard]] const Tokenizer& backend_tokenizer() const;

  /// Writes tokenizer.json and tokenizer_config.json, each whole or not at all, and makes the
  /// folder. Python's AutoTokenizer loads it. Throws FileError.
  std::vector<std::filesystem::path> save_pretrained(const std::filesystem::path& folder) const;
  /// save_pretrained() into a repository of the hub, made if there is none, in one commit. Throws
  /// what save_pretrained(), create_repo() and upload_folder() throw.
  CommitInfo push_to_hub(const std::string& repo_id, const PushToHubOptions& options = {}) const;

  /// Not here: throw UsageError, with what to use instead.
  [[noreturn]] void apply_chat_template() const;
  [[noreturn]] void train_new_from_iterator() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// As Python's: chooses by the files and by tokenizer_config.json.
struct AutoTokenizer {
  [[nodiscard]] static PreTrainedTokenizer from_pretrained(const std::string& name_or_folder,
                                                           const HubOptions& options = {}) {
    return PreTrainedTokenizer::from_pretrained(name_or_folder, options);
  }
};

}  // namespace accelerate
