#include "accelerate/transformers/tokenizers/pretrained/pre_trained_tokenizer.h"

#include <algorithm>
#include <array>
#include <set>
#include <tuple>

#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/transformers/hub/download.h"
#include "accelerate/transformers/tokenizers/pretrained/batch_encoding.h"
#include "accelerate/transformers/tokenizers/pretrained/older_files.h"
#include "accelerate/transformers/tokenizers/pretrained/tokenizer_config.h"

namespace accelerate {

using detail::Role;

struct PreTrainedTokenizer::State {
  Tokenizer tokenizer;
  detail::TokenizerConfig config;
  std::string name_or_path;

  [[nodiscard]] const std::optional<AddedToken>& named(Role role) const {
    return config.named[static_cast<std::size_t>(role)];
  }
  [[nodiscard]] std::optional<std::string> token(Role role) const {
    const auto& token = named(role);
    return token ? std::optional(token->content) : std::nullopt;
  }
  [[nodiscard]] std::optional<std::int64_t> id(Role role) const {
    const auto& token = named(role);
    const auto id = token ? tokenizer.token_to_id(token->content) : std::nullopt;
    return id ? std::optional<std::int64_t>(*id) : std::nullopt;
  }
};

namespace {

bool is_same(const AddedToken& a, const AddedToken& b) {
  const auto flags = [](const AddedToken& token) {
    return std::tuple(token.special, token.lstrip, token.rstrip, token.single_word,
                      token.normalized);
  };
  return a.content == b.content && flags(a) == flags(b);
}

// Returns the configuration's tokens that are not added tokens yet, in Transformers' order.
std::vector<AddedToken> missing_tokens(const Tokenizer& tokenizer,
                                       const detail::TokenizerConfig& config) {
  std::vector<AddedToken> missing;
  std::set<std::string> known;
  for (const auto& [id, token] : tokenizer.added_tokens()) known.insert(token.content);
  for (const auto& [id, token] : config.added) {
    const auto is_it = [&](const auto& entry) { return is_same(entry.second, token); };
    if (std::ranges::any_of(tokenizer.added_tokens(), is_it)) continue;
    missing.push_back(token);
    missing.back().special = token.special || config.is_named(token.content);
    known.insert(token.content);
  }
  // Of roles that name one content with different flags the last one's flags count.
  const auto add = [&](const AddedToken& token) {
    const auto is_it = [&](const AddedToken& other) { return is_same(other, token); };
    if (!known.contains(token.content) && std::ranges::none_of(missing, is_it))
      missing.push_back(token);
  };
  for (const auto& [name, token] : config.named_tokens()) add(token);
  for (const AddedToken& token : config.extra) add(token);
  return missing;
}

// Transformers reads the vocabulary of these classes by Python's JSON, which rounds to the nearest.
ScoreRounding rounding_of(detail::Recipe recipe) {
  using enum detail::Recipe;
  const bool is_nearest = recipe == t5 || recipe == xlm_roberta || recipe == albert;
  return is_nearest ? ScoreRounding::nearest : ScoreRounding::as_original;
}

// A model of SentencePiece may add to `config` what it says about its special tokens.
Tokenizer read_tokenizer(const std::filesystem::path& folder, detail::TokenizerConfig& config) {
  if (std::filesystem::exists(folder / "tokenizer.json"))
    return Tokenizer::from_file(folder / "tokenizer.json", rounding_of(config.of_class.recipe));
  if (auto text = detail::tokenizer_of_older_files(folder, config)) {
    return Tokenizer::from_text(std::move(*text), folder.string(), ScoreRounding::nearest);
  }
  throw FileError("open a tokenizer in", folder,
                  "it holds none of tokenizer.json, vocab.txt, vocab.json with merges.txt, "
                  "tokenizer.model, spiece.model, "
                  "sentencepiece.bpe.model, spm.model");
}

// Returns the tokenizer without truncation and padding, of which the constructor would take what the
// configuration decides. Inlined, GCC warns of members of the empty options.
[[gnu::noinline]] Tokenizer without_sections(const Tokenizer& tokenizer) {
  Tokenizer bare = tokenizer;
  bare.set_truncation(std::nullopt);
  bare.set_padding(std::nullopt);
  return bare;
}

std::uint32_t checked_id(std::int64_t id) {
  if (id >= 0 && id < static_cast<std::int64_t>(UINT32_MAX)) return static_cast<std::uint32_t>(id);
  throw UsageError("the id " + std::to_string(id) +
                   " was given; allowed are ids from 0 on. Labels of -100 have no token");
}

std::vector<std::uint32_t> checked_ids(std::span<const std::int64_t> ids) {
  std::vector<std::uint32_t> checked;
  for (const std::int64_t id : ids) checked.push_back(checked_id(id));
  return checked;
}

// Each file is small compared with weights, and few repositories have more than two.
const std::vector<std::string> kTokenizerFiles = {"tokenizer.json",
                                                  "tokenizer_config.json",
                                                  "special_tokens_map.json",
                                                  "added_tokens.json",
                                                  "config.json",
                                                  "vocab.txt",
                                                  "vocab.json",
                                                  "merges.txt",
                                                  "tokenizer.model",
                                                  "spiece.model",
                                                  "sentencepiece.bpe.model",
                                                  "spm.model"};

}  // namespace

PreTrainedTokenizer PreTrainedTokenizer::from_pretrained(const std::string& name_or_folder,
                                                         const HubOptions& options) {
  const auto folder = fetch_folder(name_or_folder, options, {.allow = kTokenizerFiles});
  auto config = detail::read_tokenizer_config(folder);
  const Tokenizer backend = read_tokenizer(folder, config);
  detail::take_sections(config, backend.truncation(), backend.padding());
  PreTrainedTokenizer made(without_sections(backend));
  made.state_->tokenizer = backend;
  if (const auto missing = missing_tokens(made.state_->tokenizer, config); !missing.empty())
    made.add_tokens(missing);
  made.state_->config = std::move(config);
  made.state_->name_or_path = name_or_folder;
  return made;
}

PreTrainedTokenizer::PreTrainedTokenizer(Tokenizer tokenizer)
    : state_(std::make_shared<State>(State{std::move(tokenizer), {}, {}})) {
  auto& [backend, config, name] = *state_;
  config.model_input_names = {"input_ids", "attention_mask"};
  detail::take_sections(config, backend.truncation(), backend.padding());
  if (const auto missing = missing_tokens(backend, config); !missing.empty()) add_tokens(missing);
}

namespace {

void check_is_one(const Texts& text, const TokenizerCallOptions& options) {
  const bool is_one =
      options.is_split_into_words ? !text.words() || text.words()->size() == 1 : !text.is_batch();
  if (is_one) return;
  throw UsageError(
      "a list of texts was given; allowed is one text. Call the tokenizer itself, which returns a "
      "row for each");
}

}  // namespace

std::vector<std::int64_t> PreTrainedTokenizer::encode(const Texts& text,
                                                      const TokenizerCallOptions& options) const {
  check_is_one(text, options);
  return (*this)(text, options).input_ids().at(0);
}

std::vector<std::string> PreTrainedTokenizer::tokenize(const Texts& text,
                                                       const TokenizerCallOptions& options) const {
  check_is_one(text, options);
  return (*this)(text, options).tokens();
}

std::string PreTrainedTokenizer::decode(std::span<const std::int64_t> ids, bool skip_special_tokens,
                                        std::optional<bool> clean_up_tokenization_spaces) const {
  const auto& tokenizer = state_->tokenizer;
  std::string text = tokenizer.decode(checked_ids(ids), skip_special_tokens);
  if (state_->config.of_class.recipe == detail::Recipe::clip)
    text = detail::without_word_ends(std::move(text));
  const bool cleans_up = clean_up_tokenization_spaces.value_or(state_->config.cleans_up);
  return cleans_up && tokenizer.model_type() != "BPE" ? detail::cleaned_up(std::move(text)) : text;
}

std::vector<std::string> PreTrainedTokenizer::batch_decode(
    std::span<const std::vector<std::int64_t>> rows, bool skip_special_tokens,
    std::optional<bool> clean_up_tokenization_spaces) const {
  std::vector<std::string> texts;
  for (const auto& ids : rows)
    texts.push_back(decode(ids, skip_special_tokens, clean_up_tokenization_spaces));
  return texts;
}

std::optional<std::int64_t> PreTrainedTokenizer::convert_tokens_to_ids(
    std::string_view token) const {
  if (const auto id = state_->tokenizer.token_to_id(token)) return *id;
  return unk_token_id();
}

std::vector<std::int64_t> PreTrainedTokenizer::convert_tokens_to_ids(
    std::span<const std::string> tokens) const {
  std::vector<std::int64_t> ids;
  for (const std::string& token : tokens) {
    const auto id = convert_tokens_to_ids(token);
    if (!id)
      throw UsageError("the token '" + token +
                       "' is not in the vocabulary, and there is no unk_token");
    ids.push_back(*id);
  }
  return ids;
}

std::vector<std::string> PreTrainedTokenizer::convert_ids_to_tokens(
    std::span<const std::int64_t> ids, bool skip_special_tokens) const {
  const auto special = skip_special_tokens ? all_special_ids() : std::vector<std::int64_t>{};
  std::vector<std::string> tokens;
  for (const std::int64_t id : ids) {
    if (std::ranges::find(special, id) != special.end()) continue;
    auto token = state_->tokenizer.id_to_token(checked_id(id));
    if (!token)
      throw UsageError("the id " + std::to_string(id) + " has no token; the vocabulary has " +
                       std::to_string(size()) + " entries");
    tokens.push_back(std::move(*token));
  }
  return tokens;
}

std::string PreTrainedTokenizer::convert_tokens_to_string(std::vector<std::string> tokens) const {
  return state_->tokenizer.join(std::move(tokens));
}

std::size_t PreTrainedTokenizer::add_tokens(const std::vector<AddedToken>& tokens) {
  return state_->tokenizer.add_tokens(tokens);
}

std::size_t PreTrainedTokenizer::add_special_tokens(const SpecialTokens& tokens) {
  const std::array named{tokens.bos_token, tokens.eos_token, tokens.unk_token, tokens.sep_token,
                         tokens.pad_token, tokens.cls_token, tokens.mask_token};
  std::vector<AddedToken> added;
  const auto add = [&](AddedToken token) {
    token.special = true;
    token.normalized = false;
    added.push_back(token);
    return token;
  };
  for (std::size_t i = 0; i < named.size(); ++i) {
    if (named[i]) state_->config.named[i] = add(*named[i]);
  }
  if (!tokens.extra_special_tokens.empty()) state_->config.extra.clear();
  for (const AddedToken& token : tokens.extra_special_tokens)
    state_->config.extra.push_back(add(token));
  return add_tokens(added);
}

// clang-format off
std::optional<std::string> PreTrainedTokenizer::bos_token() const { return state_->token(Role::bos); }
std::optional<std::string> PreTrainedTokenizer::eos_token() const { return state_->token(Role::eos); }
std::optional<std::string> PreTrainedTokenizer::unk_token() const { return state_->token(Role::unk); }
std::optional<std::string> PreTrainedTokenizer::sep_token() const { return state_->token(Role::sep); }
std::optional<std::string> PreTrainedTokenizer::pad_token() const { return state_->token(Role::pad); }
std::optional<std::string> PreTrainedTokenizer::cls_token() const { return state_->token(Role::cls); }
std::optional<std::string> PreTrainedTokenizer::mask_token() const { return state_->token(Role::mask); }
std::optional<std::int64_t> PreTrainedTokenizer::bos_token_id() const { return state_->id(Role::bos); }
std::optional<std::int64_t> PreTrainedTokenizer::eos_token_id() const { return state_->id(Role::eos); }
std::optional<std::int64_t> PreTrainedTokenizer::unk_token_id() const { return state_->id(Role::unk); }
std::optional<std::int64_t> PreTrainedTokenizer::sep_token_id() const { return state_->id(Role::sep); }
std::optional<std::int64_t> PreTrainedTokenizer::pad_token_id() const { return state_->id(Role::pad); }
std::optional<std::int64_t> PreTrainedTokenizer::cls_token_id() const { return state_->id(Role::cls); }
std::optional<std::int64_t> PreTrainedTokenizer::mask_token_id() const { return state_->id(Role::mask); }
// clang-format on

std::vector<std::string> PreTrainedTokenizer::extra_special_tokens() const {
  std::vector<std::string> tokens;
  for (const AddedToken& token : state_->config.extra) tokens.push_back(token.content);
  return tokens;
}

std::vector<std::string> PreTrainedTokenizer::all_special_tokens() const {
  std::vector<std::string> tokens;
  const auto add = [&](const std::string& token) {
    if (std::ranges::find(tokens, token) == tokens.end()) tokens.push_back(token);
  };
  for (const auto& [name, token] : state_->config.named_tokens()) add(token.content);
  for (const AddedToken& token : state_->config.extra) add(token.content);
  return tokens;
}

std::vector<std::int64_t> PreTrainedTokenizer::all_special_ids() const {
  std::vector<std::int64_t> ids;
  for (const std::string& token : all_special_tokens()) {
    if (const auto id = convert_tokens_to_ids(token)) ids.push_back(*id);
  }
  return ids;
}

std::map<std::string, std::string> PreTrainedTokenizer::special_tokens_map() const {
  std::map<std::string, std::string> tokens;
  for (const auto& [name, token] : state_->config.named_tokens()) tokens[name] = token.content;
  return tokens;
}

std::vector<std::int64_t> PreTrainedTokenizer::get_special_tokens_mask(
    std::span<const std::int64_t> ids) const {
  const auto special = all_special_ids();
  std::vector<std::int64_t> mask;
  for (const std::int64_t id : ids)
    mask.push_back(std::ranges::find(special, id) != special.end() ? 1 : 0);
  return mask;
}

std::size_t PreTrainedTokenizer::vocab_size() const {
  return state_->tokenizer.vocab_size(/*with_added_tokens=*/false);
}
std::size_t PreTrainedTokenizer::size() const {
  return state_->tokenizer.vocab_size();
}

const std::map<std::uint32_t, AddedToken>& PreTrainedTokenizer::added_tokens_decoder() const {
  return state_->tokenizer.added_tokens();
}

std::size_t PreTrainedTokenizer::num_special_tokens_to_add(bool pair) const {
  return state_->tokenizer.num_special_tokens_to_add(pair);
}

std::optional<std::size_t> PreTrainedTokenizer::model_max_length() const {
  return state_->config.model_max_length;
}
void PreTrainedTokenizer::set_model_max_length(std::optional<std::size_t> length) {
  state_->config.model_max_length = length;
}
Side PreTrainedTokenizer::padding_side() const {
  return state_->config.padding_side;
}
void PreTrainedTokenizer::set_padding_side(Side side) {
  state_->config.padding_side = side;
}
Side PreTrainedTokenizer::truncation_side() const {
  return state_->config.truncation_side;
}
void PreTrainedTokenizer::set_truncation_side(Side side) {
  state_->config.truncation_side = side;
}
bool PreTrainedTokenizer::split_special_tokens() const {
  return state_->config.boolean("split_special_tokens", false);
}
const std::vector<std::string>& PreTrainedTokenizer::model_input_names() const {
  return state_->config.model_input_names;
}
const std::string& PreTrainedTokenizer::name_or_path() const {
  return state_->name_or_path;
}
const Tokenizer& PreTrainedTokenizer::backend_tokenizer() const {
  return state_->tokenizer;
}

std::vector<std::filesystem::path> PreTrainedTokenizer::save_pretrained(
    const std::filesystem::path& folder) const {
  FileSystem& files = real_file_system();
  files.create_directories(folder);
  // The configuration comes last: a folder that has it has the vocabulary too.
  const auto vocabulary = folder / "tokenizer.json",
             configuration = folder / "tokenizer_config.json";
  write_file_atomically(files, vocabulary, state_->tokenizer.to_text());
  write_file_atomically(files, configuration, detail::write_tokenizer_config(state_->config));
  return {vocabulary, configuration};
}

CommitInfo PreTrainedTokenizer::push_to_hub(const std::string& repo_id,
                                            const PushToHubOptions& options) const {
  PushToHubOptions tokenizer = options;
  tokenizer.hub.type = RepoType::model;
  const auto save = [&](const std::filesystem::path& folder) { (void)save_pretrained(folder); };
  return detail::push(repo_id, {.what = "tokenizer", .write = save}, tokenizer);
}

void PreTrainedTokenizer::apply_chat_template() const {
  throw UsageError(
      "apply_chat_template is not here: chat templates are programs in Jinja. Apply the template "
      "in Python, and "
      "tokenize its text with add_special_tokens = false");
}

void PreTrainedTokenizer::train_new_from_iterator() const {
  throw UsageError(
      "train_new_from_iterator is not here: vocabularies are not trained. Train one with Python's "
      "tokenizers, and open its "
      "tokenizer.json");
}

}  // namespace accelerate
