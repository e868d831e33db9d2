#include "accelerate/transformers/tokenizers/pretrained/older_files.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "accelerate/base/bytes.h"
#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/utf8.h"
#include "accelerate/formats/documents/json.h"
#include "accelerate/transformers/tokenizers/pretrained/sentencepiece_rules.h"
#include "accelerate/transformers/tokenizers/pretrained/tokenizer_config.h"
#include "accelerate/transformers/tokenizers/unicode/code_points.h"
#include "accelerate/transformers/tokenizers/unicode/properties.h"

namespace accelerate::detail {
namespace {

using Json = nlohmann::json;

constexpr char kQwen2Pattern[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr char kClipPattern[] =
    R"(<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+)";

std::string read_text(const std::filesystem::path& file) {
  const auto content = real_file_system().map(file);
  std::string text(byte_text(content->bytes()));
  if (!is_utf8(text)) throw ConfigError(file.string() + ": is not UTF-8");
  return text;
}

// Cuts lines at \n and at \r\n.
std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    at = end + 1;
  }
  return lines;
}

std::string_view without_space_behind(std::string_view line) {
  for (std::size_t end = line.size(); !line.empty(); line = line.substr(0, end)) {
    end = line.size();
    if (!has(previous_code_point(line, end), kWhiteSpace)) break;
  }
  return line;
}

// Reads vocab.txt: one word per line, whose id is the number of the line. As in the original no
// word ends with white space.
Json read_vocab_txt(const std::filesystem::path& file) {
  Json vocab = Json::object();
  const std::string text = read_text(file);
  std::size_t id = 0;
  for (const std::string_view line : lines_of(text))
    vocab[std::string(without_space_behind(line))] = id++;
  return vocab;
}

Json read_vocab_json(const std::filesystem::path& file) {
  return parse_object(read_text(file), file.string(), "{\"word\": id, …}");
}

Json read_merges(const std::filesystem::path& file) {
  Json merges = Json::array();
  const std::string text = read_text(file);
  for (const std::string_view line : lines_of(text)) {
    if (line.empty() || line.starts_with("#version")) continue;
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
      throw ConfigError(file.string() + ": the line '" + std::string(line) +
                        "' does not hold two words");
    }
    merges.push_back({line.substr(0, space), line.substr(space + 1)});
  }
  return merges;
}

// --- Parts of a tokenizer.json ---

Json token_at(const std::string& token, int type) {
  return {{"SpecialToken", {{"id", token}, {"type_id", type}}}};
}
Json text_at(const char* which, int type) {
  return {{"Sequence", {{"id", which}, {"type_id", type}}}};
}

Json byte_level(bool adds_space, bool uses_pattern) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", adds_space},
          {"trim_offsets", true},
          {"use_regex", uses_pattern}};
}

Json byte_bpe(const std::filesystem::path& folder) {
  return {{"type", "BPE"},
          {"vocab", read_vocab_json(folder / "vocab.json")},
          {"fuse_unk", false},
          {"merges", read_merges(folder / "merges.txt")},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", ""},
          {"end_of_word_suffix", ""},
          {"byte_fallback", false}};
}

Json split_at(const char* pattern, const char* behavior, bool inverts) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", pattern}}},
          {"behavior", behavior},
          {"invert", inverts}};
}

Json bert_normalizer(bool lowercase, const Json& strips_accents, bool cuts_chinese = true) {
  return {{"type", "BertNormalizer"},
          {"clean_text", true},
          {"handle_chinese_chars", cuts_chinese},
          {"strip_accents", strips_accents},
          {"lowercase", lowercase}};
}

class OlderFilesMaker {
 public:
  OlderFilesMaker(const std::filesystem::path& folder, TokenizerConfig& config)
      : folder_(folder), config_(config) {}

  std::optional<std::string> run() {
    if (has("vocab.txt")) return finish(of_vocab_txt());
    if (has("vocab.json") && has("merges.txt")) return finish(of_merges());
    for (const char* const name :
         {"tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "spm.model"}) {
      if (!has(name)) continue;
      const auto file = folder_ / name;
      return json_text(
          tokenizer_of_sentencepiece(read_sentencepiece(file), config_, file.string()));
    }
    return std::nullopt;
  }

 private:
  [[nodiscard]] bool has(const char* name) const { return std::filesystem::exists(folder_ / name); }

  [[noreturn]] void refuse(const std::string& files, const std::string& allowed) const {
    const auto found = config_.values.find("tokenizer_class");
    const bool is_named = found != config_.values.end() && found->is_string();
    const std::string name = is_named ? found->get<std::string>() : "";
    throw ConfigError(
        folder_.string() + ": holds " + files + " and no tokenizer.json, and its class is '" +
            name + "'; allowed are " + allowed +
            ". Save the tokenizer with Python's save_pretrained(), which writes tokenizer.json",
        error_name::kUnknownTokenizer);
  }

  static std::string finish(Json root) {
    for (const char* const key : {"normalizer", "pre_tokenizer", "post_processor", "decoder"})
      root.emplace(key, nullptr);
    root["added_tokens"] = Json::array();
    return json_text(root);
  }

  Json of_vocab_txt() {
    const Json vocab = read_vocab_txt(folder_ / "vocab.txt");
    const auto accents = config_.values.find("strip_accents");
    return {{"normalizer", bert_normalizer(config_.boolean("do_lower_case", true),
                                           accents == config_.values.end() ? Json() : *accents,
                                           config_.boolean("tokenize_chinese_chars", true))},
            {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
            {"post_processor", processor_of_words(vocab)},
            {"model",
             {{"type", "WordPiece"},
              {"unk_token", config_.token(Role::unk)},
              {"continuing_subword_prefix", "##"},
              {"max_input_chars_per_word", 100},
              {"vocab", vocab}}},
            {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}}};
  }

  [[nodiscard]] Json processor_of_words(const Json& vocab) const {
    switch (config_.of_class.recipe) {
      case Recipe::bert:
        return classifier_template(vocab, /*type_of_first=*/0);
      case Recipe::funnel:
        return classifier_template(vocab, /*type_of_first=*/2);
      case Recipe::mpnet:
        return roberta_processing(vocab, {Role::cls, Role::sep}, /*trims=*/true, false);
      default:
        refuse("vocab.txt",
               "BertTokenizer, DistilBertTokenizer, ElectraTokenizer, MobileBertTokenizer, "
               "LayoutLMTokenizer, ConvBertTokenizer, SqueezeBertTokenizer, LxmertTokenizer, "
               "MPNetTokenizer and FunnelTokenizer");
    }
  }

  [[nodiscard]] Json classifier_template(const Json& vocab, int type_of_first) const {
    const std::string cls = config_.token(Role::cls), sep = config_.token(Role::sep);
    return {{"type", "TemplateProcessing"},
            {"single", {token_at(cls, type_of_first), text_at("A", 0), token_at(sep, 0)}},
            {"pair",
             {token_at(cls, type_of_first), text_at("A", 0), token_at(sep, 0), text_at("B", 1),
              token_at(sep, 1)}},
            {"special_tokens", special_tokens(vocab, {cls, sep})}};
  }

  Json special_tokens(const Json& vocab, const std::vector<std::string>& tokens) const {
    Json found = Json::object();
    for (const std::string& token : tokens)
      found[token] = {{"id", token}, {"ids", {id_of(vocab, token)}}, {"tokens", {token}}};
    return found;
  }

  [[nodiscard]] Json id_of(const Json& vocab, const std::string& token) const {
    const auto found = vocab.find(token);
    if (found == vocab.end())
      throw ConfigError(folder_.string() + ": the vocabulary lacks the special token '" + token +
                        "'");
    return *found;
  }

  Json of_merges() {
    const Recipe recipe = config_.of_class.recipe;
    if (recipe == Recipe::clip || recipe == Recipe::openai_gpt || recipe == Recipe::herbert)
      return of_ended_words(recipe);
    const bool adds_space = config_.boolean("add_prefix_space", recipe == Recipe::blenderbot);
    Json root{{"model", byte_bpe(folder_)},
              {"pre_tokenizer", byte_level(adds_space, true)},
              {"decoder", byte_level(true, true)}};
    if (recipe == Recipe::qwen2 || recipe == Recipe::gpt_neox)
      root["normalizer"] = {{"type", "NFC"}};
    if (recipe == Recipe::qwen2)
      root["pre_tokenizer"] = {
          {"type", "Sequence"},
          {"pretokenizers",
           {split_at(kQwen2Pattern, "Isolated", false), byte_level(adds_space, false)}}};
    root["post_processor"] = processor_of_bytes(root["model"]["vocab"], adds_space);
    return root;
  }

  [[nodiscard]] Json processor_of_bytes(const Json& vocab, bool adds_space) const {
    const auto& values = config_.values;
    switch (config_.of_class.recipe) {
      case Recipe::codegen:
        if (!values.contains("add_bos_token") && !values.contains("add_eos_token"))
          return {{"type", "ByteLevel"},
                  {"add_prefix_space", true},
                  {"trim_offsets", false},
                  {"use_regex", true}};
        return plain_template();
      case Recipe::gpt2:
      case Recipe::gpt_neox:
      case Recipe::blenderbot:
      case Recipe::qwen2:
        return plain_template();
      case Recipe::deberta:
        return deberta_template(vocab);
      case Recipe::roberta:
        return roberta_processing(vocab, {Role::cls, Role::sep},
                                  config_.boolean("trim_offsets", true), adds_space);
      default:
        refuse("vocab.json and merges.txt",
               "GPT2Tokenizer, CodeGenTokenizer, GPTNeoXTokenizer, RobertaTokenizer, "
               "BartTokenizer, LongformerTokenizer, LEDTokenizer, MvpTokenizer, "
               "BlenderbotTokenizer, DebertaTokenizer, Qwen2Tokenizer, CLIPTokenizer, "
               "OpenAIGPTTokenizer and HerbertTokenizer");
    }
  }

  // BPE whose words end with a token that ends in </w>.
  [[nodiscard]] Json of_ended_words(Recipe recipe) const {
    Json root{{"model", byte_bpe(folder_)}};
    root["model"]["end_of_word_suffix"] = "</w>";
    root["model"]["unk_token"] = config_.token(Role::unk);
    if (recipe == Recipe::clip) {
      root["normalizer"] = {
          {"type", "Sequence"},
          {"normalizers",
           {{{"type", "NFC"}}, replacement({{"Regex", "\\s+"}}, " "), {{"type", "Lowercase"}}}}};
      root["pre_tokenizer"] = {
          {"type", "Sequence"},
          {"pretokenizers", {split_at(kClipPattern, "Removed", true), byte_level(false, true)}}};
      root["decoder"] = byte_level(true, true);
      root["post_processor"] = roberta_processing(root["model"]["vocab"], {Role::bos, Role::eos},
                                                  /*trims=*/false, /*adds_space=*/false);
      return root;
    }
    const bool is_herbert = recipe == Recipe::herbert;
    root["normalizer"] = bert_normalizer(!is_herbert, is_herbert ? Json(false) : Json());
    root["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
    root["decoder"] = {{"type", "BPEDecoder"}, {"suffix", "</w>"}};
    root["post_processor"] = is_herbert ? herbert_processing() : plain_template();
    return root;
  }

  // The class names these ids, whatever the vocabulary says.
  [[nodiscard]] Json herbert_processing() const {
    return {{"type", "BertProcessing"},
            {"sep", {config_.token(Role::sep), 2}},
            {"cls", {config_.token(Role::cls), 0}}};
  }

  // All types are 0.
  [[nodiscard]] Json deberta_template(const Json& vocab) const {
    const std::string cls = config_.token(Role::cls), sep = config_.token(Role::sep);
    return {{"type", "TemplateProcessing"},
            {"single", {token_at(cls, 0), text_at("A", 0), token_at(sep, 0)}},
            {"pair",
             {token_at(cls, 0), text_at("A", 0), token_at(sep, 0), token_at(sep, 0),
              text_at("B", 0), token_at(sep, 0)}},
            {"special_tokens", special_tokens(vocab, {cls, sep})}};
  }

  // Adds only the tokens that `add_bos_token` and `add_eos_token` ask for.
  [[nodiscard]] Json plain_template() const {
    return template_of(config_, [&](const std::string& token) { return id_of_any(token); });
  }

  [[nodiscard]] Json id_of_any(const std::string& token) const {
    return id_of(read_vocab_json(folder_ / "vocab.json"), token);
  }

  // `around`: the roles of the tokens before and behind a text.
  [[nodiscard]] Json roberta_processing(const Json& vocab, std::pair<Role, Role> around, bool trims,
                                        bool adds_space) const {
    const std::string cls = config_.token(around.first), sep = config_.token(around.second);
    return {{"type", "RobertaProcessing"},
            {"sep", {sep, id_of(vocab, sep)}},
            {"cls", {cls, id_of(vocab, cls)}},
            {"trim_offsets", trims},
            {"add_prefix_space", adds_space}};
  }

  const std::filesystem::path& folder_;
  TokenizerConfig& config_;
};

}  // namespace

std::optional<std::string> tokenizer_of_older_files(const std::filesystem::path& folder,
                                                    TokenizerConfig& config) {
  return OlderFilesMaker(folder, config).run();
}

}  // namespace accelerate::detail
