#include "accelerate/base/error_name.h"
#include "accelerate/transformers/tokenizers/pretrained/older_files.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/transformers/tokenizers/pretrained/sentencepiece_rules.h"
#include "accelerate/transformers/tokenizers/unicode/code_points.h"

namespace accelerate::detail {
namespace {

using Json = nlohmann::json;
using Vocab = std::vector<std::pair<std::string, float>>;

/// As many spaces as a text may begin with.
constexpr std::size_t kAll = 1'000'000'000;

// Returns the place of each piece: its id, or its rank by score if `by_score`.
std::vector<std::size_t> places_of(const Vocab& vocab, bool by_score) {
  std::vector<std::size_t> order(vocab.size()), places(vocab.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto score = [&](std::size_t id) { return vocab[id].second; };
  if (by_score) std::ranges::stable_sort(order, std::greater<>(), score);
  for (std::size_t place = 0; place < order.size(); ++place) places[order[place]] = place;
  return places;
}

// Returns every way to make a piece of two others, ordered by the place of the piece, then by the
// lengths of the halves. `is_made`: whether a piece is made at all.
Json merges_of(const Vocab& vocab, const std::vector<std::size_t>& places,
               const std::function<bool(std::size_t)>& is_made) {
  std::unordered_map<std::string_view, std::size_t> ids;
  // Halves of a length that no piece has are not looked up: pieces may be as long as the file.
  std::unordered_set<std::size_t> lengths;
  for (std::size_t id = 0; id < vocab.size(); ++id) {
    ids[vocab[id].first] = id;
    lengths.insert(vocab[id].first.size());
  }
  struct Merge {
    std::size_t piece, left_length, right_length, left, right;
    [[nodiscard]] auto key() const { return std::tie(piece, left_length, right_length); }
  };
  std::vector<Merge> merges;
  for (std::size_t id = 0; id < vocab.size(); ++id) {
    const std::string_view piece = vocab[id].first;
    const std::size_t length = count_code_points(piece);
    std::size_t left_length = 0;
    for (std::size_t cut = 0; cut < piece.size() && is_made(id);) {
      cut += width_of(piece[cut]);
      ++left_length;
      if (!lengths.contains(cut) || !lengths.contains(piece.size() - cut)) continue;
      const auto left = ids.find(piece.substr(0, cut)), right = ids.find(piece.substr(cut));
      if (cut == piece.size() || left == ids.end() || right == ids.end()) continue;
      merges.push_back(
          {places[ids[piece]], left_length, length - left_length, left->second, right->second});
    }
  }
  std::ranges::stable_sort(merges,
                           [](const Merge& a, const Merge& b) { return a.key() < b.key(); });
  Json list = Json::array();
  for (const Merge& merge : merges)
    list.push_back({vocab[merge.left].first, vocab[merge.right].first});
  return list;
}

Json metaspace(const char* scheme, bool splits) {
  return {{"type", "Metaspace"},
          {"replacement", kBlank},
          {"prepend_scheme", scheme},
          {"split", splits}};
}

Json sequence(const char* key, Json parts) {
  return {{"type", "Sequence"}, {key, std::move(parts)}};
}

class SentencePieceMaker {
 public:
  SentencePieceMaker(SentencePieceModel model, TokenizerConfig& config, std::string file)
      : model_(std::move(model)), config_(config), file_(std::move(file)) {
    for (const auto& piece : model_.pieces) vocab_.emplace_back(piece.text, piece.score);
  }

  Json run() {
    Json root{{"normalizer", nullptr}, {"pre_tokenizer", nullptr}, {"decoder", nullptr}};
    switch (config_.of_class.recipe) {
      case Recipe::llama:
        make_llama(root);
        break;
      case Recipe::t5:
        make_t5(root);
        break;
      case Recipe::xlm_roberta:
        make_xlm_roberta(root);
        break;
      case Recipe::albert:
        make_albert(root);
        break;
      case Recipe::deberta_v2:
        make_deberta_v2(root);
        break;
      default:
        make_plain(root);
    }
    root["added_tokens"] = added_tokens();
    return root;
  }

 private:
  // --- Models ---

  [[nodiscard]] Json unigram(std::size_t unk_id, bool byte_fallback) const {
    Json list = Json::array();
    for (const auto& [piece, score] : vocab_) list.push_back({piece, score});
    return {{"type", "Unigram"},
            {"vocab", std::move(list)},
            {"unk_id", unk_id},
            {"byte_fallback", byte_fallback}};
  }

  [[nodiscard]] Json bpe(bool byte_fallback, bool by_score) const {
    Json ids = Json::object();
    for (std::size_t id = 0; id < vocab_.size(); ++id) ids[vocab_[id].first] = id;
    // By score is SentencePiece's way, which makes no piece that texts cannot hold.
    const auto is_made = [&](std::size_t id) {
      if (!by_score || model_.pieces[id].kind == SentencePieceModel::Kind::unused) return true;
      return is_in_texts(model_, model_.pieces[id]) && !is_symbol(model_, model_.pieces[id]);
    };
    return {{"type", "BPE"},
            {"vocab", std::move(ids)},
            {"merges", merges_of(vocab_, places_of(vocab_, by_score), is_made)},
            {"unk_token", nullptr},
            {"fuse_unk", true},
            {"byte_fallback", byte_fallback},
            {"dropout", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr}};
  }

  // --- Classes ---

  void make_llama(Json& root) {
    const bool adds_space = config_.boolean("add_prefix_space", true);
    root["model"] = bpe(/*byte_fallback=*/true, /*by_score=*/false);
    root["pre_tokenizer"] = metaspace(!adds_space                        ? "never"
                                      : config_.boolean("legacy", false) ? "always"
                                                                         : "first",
                                      false);
    root["decoder"] = decoder(adds_space ? 1 : 0);
    root["post_processor"] =
        template_of(config_, [&](const std::string& token) { return id_of(token); });
  }

  /// `stripped`: how many spaces at the beginning of a text are left out.
  [[nodiscard]] static Json decoder(std::size_t stripped) {
    Json parts{
        replacement({{"String", kBlank}}, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
    if (stripped > 0)
      parts.push_back({{"type", "Strip"}, {"content", " "}, {"start", stripped}, {"stop", 0}});
    return sequence("decoders", std::move(parts));
  }

  // What T5, XLM-RoBERTa and ALBERT share.
  void make_words(Json& root, std::size_t unk_id, bool adds_space) {
    const char* const scheme = adds_space ? "always" : "never";
    root["model"] = unigram(unk_id, false);
    root["pre_tokenizer"] =
        sequence("pretokenizers", {{{"type", "WhitespaceSplit"}}, metaspace(scheme, true)});
    root["decoder"] = metaspace(scheme, true);
    if (const auto rules = precompiled_of(model_)) root["normalizer"] = *rules;
  }

  void make_t5(Json& root) {
    for (auto token = config_.extra.rbegin(); token != config_.extra.rend(); ++token) {
      if (!token->content.starts_with("<extra_id_")) continue;
      extra_.push_back(token->content);
      vocab_.emplace_back(token->content, 0.0F);
    }
    make_words(root, 2, true);
    root["post_processor"] = around("", "</s>");
  }

  void make_xlm_roberta(Json& root) {
    // fairseq's order: <s>, <pad>, </s>, <unk>, then the pieces after the first three, then <mask>.
    Vocab ordered{{"<s>", 0}, {"<pad>", 0}, {"</s>", 0}, {"<unk>", 0}};
    if (vocab_.size() > 3) ordered.insert(ordered.end(), vocab_.begin() + 3, vocab_.end());
    ordered.emplace_back("<mask>", 0.0F);
    vocab_ = std::move(ordered);
    make_words(root, 3, config_.boolean("add_prefix_space", true));
    root["post_processor"] =
        around(config_.token(Role::bos), config_.token(Role::eos), /*doubles_between=*/true);
  }

  void make_albert(Json& root) {
    make_words(root, 1, config_.boolean("add_prefix_space", true));
    Json parts{replacement({{"String", "``"}}, "\""), replacement({{"String", "''"}}, "\"")};
    if (!config_.boolean("keep_accents", false)) {
      parts.push_back({{"type", "NFKD"}});
      parts.push_back({{"type", "StripAccents"}});
    }
    if (config_.boolean("do_lower_case", true)) parts.push_back({{"type", "Lowercase"}});
    if (const auto rules = precompiled_of(model_)) parts.push_back(*rules);
    root["normalizer"] = sequence("normalizers", std::move(parts));
    root["post_processor"] = around("[CLS]", "[SEP]", false, /*second_type=*/1);
  }

  // The rules of the model itself are not read.
  void make_deberta_v2(Json& root) {
    const auto unk = std::ranges::find(vocab_, Vocab::value_type(config_.token(Role::unk), 0.0F));
    root["model"] =
        unigram(unk == vocab_.end() ? 1 : static_cast<std::size_t>(unk - vocab_.begin()), false);
    Json parts = Json::array();
    if (config_.boolean("do_lower_case", false)) parts.push_back({{"type", "Lowercase"}});
    parts.push_back(replacement({{"Regex", "\\s{2,}|[\\n\\r\\t]"}}, " "));
    parts.push_back({{"type", "NFC"}});
    parts.push_back({{"type", "Strip"}, {"strip_left", false}, {"strip_right", true}});
    root["normalizer"] = sequence("normalizers", std::move(parts));
    const char* const scheme = config_.boolean("add_prefix_space", true) ? "always" : "first";
    Json words = Json::array();
    if (config_.boolean("split_by_punct", false))
      words.push_back({{"type", "Punctuation"}, {"behavior", "Isolated"}});
    words.push_back(metaspace(scheme, true));
    root["pre_tokenizer"] = sequence("pretokenizers", std::move(words));
    root["decoder"] = metaspace(scheme, true);
    root["post_processor"] = around(config_.token(Role::cls), config_.token(Role::sep),
                                    /*doubles_between=*/false, /*second_type=*/1);
  }

  // Reads the model as SentencePiece itself does.
  void make_plain(Json& root) {
    refuse_what_is_not_plain();
    root["model"] = plain_model();
    root["normalizer"] = normalizer_of_sentencepiece(model_);
    root["decoder"] = decoder(model_.removes_extra_whitespaces ? kAll
                              : model_.adds_dummy_prefix       ? 1
                                                               : 0);
    take_roles_of_sentencepiece(model_, config_);
    if (finds_no_special_tokens()) config_.values.emplace("split_special_tokens", true);
    is_plain_ = true;
    normalizes_symbols_ = finds_symbols_in_normalized_text(model_);
    root["post_processor"] =
        template_of(config_, [&](const std::string& token) { return id_of(token); });
  }

  void refuse_what_is_not_plain() const {
    if (model_.algorithm == Algorithm::word || model_.algorithm == Algorithm::character) {
      throw ConfigError(file_ + ": was trained with the algorithm '" +
                            (model_.algorithm == Algorithm::word ? "word" : "char") +
                            "'; allowed are unigram and bpe",
                        error_name::kUnknownTokenizer);
    }
    if (config_.other_class.empty()) return;
    throw ConfigError(
        file_ + ": Transformers builds its tokenizer by the class '" +
            std::string(config_.other_class) +
            "', which gives other ids than the model; allowed without tokenizer.json are "
            "LlamaTokenizer, T5Tokenizer, XLMRobertaTokenizer, AlbertTokenizer, "
            "DebertaV2Tokenizer, "
            "GemmaTokenizer and no class. Save the tokenizer with Python's "
            "save_pretrained(), which writes tokenizer.json",
        error_name::kUnknownTokenizer);
  }

  [[nodiscard]] Json plain_model() const {
    const bool is_bpe = model_.algorithm == Algorithm::bpe;
    Json model = is_bpe ? bpe(model_.byte_fallback, /*by_score=*/true)
                        : unigram(static_cast<std::size_t>(model_.unk_id), model_.byte_fallback);
    if (is_bpe && model_.unk_id >= 0)
      model["unk_token"] = vocab_.at(static_cast<std::size_t>(model_.unk_id)).first;
    Json unmatched = Json::array();
    for (std::size_t id = 0; id < model_.pieces.size(); ++id) {
      if (!is_in_texts(model_, model_.pieces[id])) unmatched.push_back(id);
    }
    if (!is_bpe && finds_no_special_tokens()) model["unmatched"] = std::move(unmatched);
    return model;
  }

  // Transformers' GemmaTokenizer finds special tokens in texts; SentencePiece does not.
  [[nodiscard]] bool finds_no_special_tokens() const {
    return config_.of_class.name == tokenizer_class("").name;
  }

  // --- Special tokens ---

  [[nodiscard]] Json id_of(const std::string& token) {
    const auto found = ids().find(token);
    if (found == ids().end())
      throw ConfigError(file_ + ": the vocabulary lacks the special token '" + token + "'");
    return found->second;
  }

  // Returns the ids of all pieces. The vocabulary must not change after the first call.
  const std::unordered_map<std::string_view, std::size_t>& ids() {
    if (ids_.empty()) {
      for (std::size_t id = 0; id < vocab_.size(); ++id) ids_.try_emplace(vocab_[id].first, id);
    }
    return ids_;
  }

  [[nodiscard]] Json around(const std::string& before, const std::string& behind,
                            bool doubles_between = false, int second_type = 0) {
    const auto token = [](const std::string& text, int type) {
      return Json{{"SpecialToken", {{"id", text}, {"type_id", type}}}};
    };
    const auto text = [](const char* which, int type) {
      return Json{{"Sequence", {{"id", which}, {"type_id", type}}}};
    };
    Json single = Json::array();
    if (!before.empty()) single.push_back(token(before, 0));
    single.push_back(text("A", 0));
    single.push_back(token(behind, 0));
    Json pair = single;
    if (doubles_between) pair.push_back(token(behind, 0));
    pair.push_back(text("B", second_type));
    pair.push_back(token(behind, second_type));
    Json used = Json::object();
    for (const std::string& name : {before, behind}) {
      if (!name.empty()) used[name] = {{"id", name}, {"ids", {id_of(name)}}, {"tokens", {name}}};
    }
    return {{"type", "TemplateProcessing"},
            {"single", single},
            {"pair", pair},
            {"special_tokens", used}};
  }

  [[nodiscard]] Json added_tokens() {
    Json list = Json::array();
    const auto add = [&](const std::string& content, bool special) {
      list.push_back({{"id", id_of(content)},
                      {"content", content},
                      {"single_word", false},
                      {"lstrip", false},
                      {"rstrip", false},
                      {"normalized", normalizes_symbols_ && !special},
                      {"special", special}});
    };
    for (const auto& piece : model_.pieces) {
      const bool is_control = piece.kind == SentencePieceModel::Kind::control;
      if (ids().contains(piece.text) &&
          (is_control || (is_plain_ ? is_symbol(model_, piece)
                                    : piece.kind == SentencePieceModel::Kind::user_defined)))
        add(piece.text, is_control);
    }
    for (const std::string& token : extra_) add(token, true);
    return list;
  }

  using Algorithm = SentencePieceModel::Algorithm;

  SentencePieceModel model_;
  TokenizerConfig& config_;
  std::string file_;
  bool is_plain_ = false, normalizes_symbols_ = false;
  Vocab vocab_;
  std::unordered_map<std::string_view, std::size_t> ids_;
  std::vector<std::string> extra_;
};

}  // namespace

Json tokenizer_of_sentencepiece(SentencePieceModel model, TokenizerConfig& config,
                                const std::string& file) {
  return SentencePieceMaker(std::move(model), config, file).run();
}

Json template_of(const TokenizerConfig& config,
                 const std::function<Json(const std::string&)>& id_of) {
  Json single = Json::array(), pair = Json::array(), used = Json::object();
  const auto add = [&](const std::string& token, const char* text, int type) {
    if (!token.empty()) used[token] = {{"id", token}, {"ids", {id_of(token)}}, {"tokens", {token}}};
    const Json part = token.empty() ? Json{{"Sequence", {{"id", text}, {"type_id", type}}}}
                                    : Json{{"SpecialToken", {{"id", token}, {"type_id", type}}}};
    if (type == 0) single.push_back(part);
    pair.push_back(part);
  };
  for (const int type : {0, 1}) {
    if (config.boolean("add_bos_token", false) && config.named[0])
      add(config.token(Role::bos), "", type);
    add("", type == 0 ? "A" : "B", type);
    if (config.boolean("add_eos_token", false) && config.named[1])
      add(config.token(Role::eos), "", type);
  }
  return {
      {"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", used}};
}

}  // namespace accelerate::detail
