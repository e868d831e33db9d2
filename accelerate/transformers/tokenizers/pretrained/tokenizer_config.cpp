#include "accelerate/transformers/tokenizers/pretrained/tokenizer_config.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "accelerate/base/bytes.h"
#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/formats/documents/json.h"

namespace accelerate::detail {
namespace {

using Json = nlohmann::json;

/// From here on a limit is none: Transformers writes 10^30.
constexpr double kVeryLarge = 1e19;

// A JSON object, its text, and its file for messages.
struct Source {
  Json values;
  std::string file;
  std::string text = {};

  [[noreturn]] void refuse(const std::string& key, const std::string& allowed) const {
    throw ConfigError(file + ": '" + key + "' is " + json_text(values.value(key, Json())) +
                      "; allowed is " + allowed);
  }
};

Source read_object(const std::filesystem::path& file) {
  Source source{Json::object(), file.string()};
  if (!std::filesystem::exists(file)) return source;
  const auto content = real_file_system().map(file);
  source.text = byte_text(content->bytes());
  source.values = parse_object(source.text, source.file, "{\"key\": value, …}");
  return source;
}

// Returns the keys of the object at key `section`, or of the whole file for "", in the order of the
// file: new tokens get their ids in this order.
std::vector<std::string> keys_of(const Source& source, const std::string& section) {
  std::vector<std::string> keys;
  std::string top;
  const auto note = [&](int depth, Json::parse_event_t event, const Json& key) {
    if (event != Json::parse_event_t::key) return true;
    if (depth == 1) top = key.get<std::string>();
    if (section.empty() ? depth == 1 : depth == 2 && top == section)
      keys.push_back(key.get<std::string>());
    return true;
  };
  [[maybe_unused]] const Json all = Json::parse(source.text, note, /*allow_exceptions=*/false);
  return keys;
}

constexpr std::array kFlags{"special", "lstrip", "rstrip", "single_word", "normalized"};

// Whether `key` is true, false, null or missing.
bool is_flag(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found == json.end() || found->is_null() || found->is_boolean();
}

// Reads a token: "[PAD]", or an object with `content` and flags. nullopt for anything else.
std::optional<AddedToken> token_of(const Json& json) {
  if (json.is_string())
    return AddedToken{.content = json.get<std::string>(), .special = true, .normalized = false};
  if (!json.is_object() || !json.contains("content") || !json["content"].is_string())
    return std::nullopt;
  if (!std::ranges::all_of(kFlags, [&](const char* key) { return is_flag(json, key); }))
    return std::nullopt;
  const auto flag = [&](const char* key, bool otherwise) {
    const auto found = json.find(key);
    return found != json.end() && !found->is_null() ? found->get<bool>() : otherwise;
  };
  const bool special = flag("special", true);
  return AddedToken{.content = json["content"].get<std::string>(),
                    .special = special,
                    .lstrip = flag("lstrip", false),
                    .rstrip = flag("rstrip", false),
                    .single_word = flag("single_word", false),
                    .normalized = flag("normalized", !special)};
}

// Gives `name` its token, in place of the one that it had.
void set_token(NamedTokens& tokens, const std::string& name, const AddedToken& token) {
  const auto known =
      std::ranges::find(tokens, name, [](const auto& pair) -> const auto& { return pair.first; });
  if (known == tokens.end()) {
    tokens.emplace_back(name, token);
  } else {
    known->second = token;
  }
}

bool is_own_name(const std::string& key) {
  return key.ends_with("_token") && std::ranges::find(kRoleKeys, key) == kRoleKeys.end();
}

class Reader {
 public:
  explicit Reader(const std::filesystem::path& folder)
      : folder_(folder), main_(read_object(folder / "tokenizer_config.json")) {}

  TokenizerConfig run() {
    config_.values = main_.values;
    find_class();
    for (std::size_t i = 0; i < kRoleCount; ++i) {
      const std::string_view token = config_.of_class.special_tokens[i];
      if (!token.empty()) config_.named[i] = token_of(std::string(token));
    }
    // The constructors of these classes let the token take the space before it.
    const bool takes_space =
        config_.of_class.recipe == Recipe::blenderbot || config_.of_class.recipe == Recipe::mpnet;
    take_named(main_);
    auto& mask = config_.named[static_cast<std::size_t>(Role::mask)];
    if (takes_space && mask && !main_.values.value("mask_token", Json()).is_object())
      mask->lstrip = true;
    take_own_names();
    take_all_extra();
    read_added_tokens();
    if (!main_.values.contains("added_tokens_decoder")) read_older_files();
    if (older_key_waits_ && !has_extra_) take_extra(main_, "additional_special_tokens");
    set_own_names();
    take_flags_of_added_tokens();
    if (config_.of_class.recipe == Recipe::t5 && config_.extra.empty()) add_sentinels();
    read_settings();
    return std::move(config_);
  }

 private:
  void find_class() {
    const std::string name = text("tokenizer_class", "");
    if (name.empty()) {
      const Source model = read_object(folder_ / "config.json");
      const auto found = model.values.find("model_type");
      const bool is_named = found != model.values.end() && found->is_string();
      const std::string type = is_named ? found->get<std::string>() : "";
      config_.of_class = tokenizer_class_of_model(type);
      config_.other_class = class_with_other_recipe(type);
    } else {
      config_.other_class = class_with_other_recipe(name);
      config_.of_class = tokenizer_class(name);
    }
  }

  void take_named(const Source& source) {
    for (std::size_t i = 0; i < kRoleCount; ++i) {
      const std::string key(kRoleKeys[i]);
      const auto found = source.values.find(key);
      if (found == source.values.end()) continue;
      config_.named[i] = token_of(*found);
      if (!config_.named[i] && !found->is_null())
        source.refuse(key, "a token: a string, or an object with 'content'");
    }
  }

  // Transformers tells strings from marked objects: their names come in another order.
  void take_own_names() {
    for (const std::string& key : keys_of(main_, "")) {
      const Json& value = main_.values[key];
      const auto token = is_own_name(key) ? token_of(value) : std::nullopt;
      if (!token) continue;
      if (value.is_string()) set_token(own_names_, key, *token);
      if (value.contains("__type")) set_token(first_names_, key, *token);
    }
  }

  void take_all_extra() {
    const auto extra = main_.values.find("extra_special_tokens");
    const bool is_filled = extra != main_.values.end() && !extra->empty();
    const bool has_older_key = main_.values.contains("additional_special_tokens");
    older_key_waits_ = has_older_key && is_filled;
    take_extra(main_,
               has_older_key && !is_filled ? "additional_special_tokens" : "extra_special_tokens");
    if (own_names_.empty()) take_names(main_, "model_specific_special_tokens");
  }

  // Takes a list of tokens, or an object of tokens by name.
  void take_extra(const Source& source, const std::string& key) {
    const auto found = source.values.find(key);
    if (found == source.values.end()) return;
    has_extra_ = !found->is_object();
    if (found->is_object()) {
      config_.extra.clear();
      return take_names(source, key);
    }
    if (!found->is_null() && !found->is_array()) source.refuse(key, "a list of tokens");
    for (const Json& json : *found) {
      const auto token = token_of(json);
      if (!token) source.refuse(key, "a list of tokens");
      const auto is_same = [&](const AddedToken& other) { return other.content == token->content; };
      if (std::ranges::none_of(config_.extra, is_same)) config_.extra.push_back(*token);
    }
  }

  void take_names(const Source& source, const std::string& section) {
    const auto found = source.values.find(section);
    if (found == source.values.end() || found->is_null()) return;
    if (!found->is_object()) source.refuse(section, "an object of tokens by name");
    for (const std::string& name : keys_of(source, section)) {
      const auto token = token_of((*found)[name]);
      if (!token) source.refuse(section, "an object of tokens by name");
      set_token(own_names_, name, *token);
    }
  }

  void set_own_names() {
    for (const auto& [name, token] : own_names_) set_token(first_names_, name, token);
    for (const auto& [name, token] : first_names_) {
      const auto role = std::ranges::find(kRoleKeys, name);
      if (role == kRoleKeys.end()) {
        config_.own_names.emplace_back(name, token);
      } else {
        config_.named[static_cast<std::size_t>(role - kRoleKeys.begin())] = token;
      }
    }
  }

  void read_added_tokens() {
    const auto found = main_.values.find("added_tokens_decoder");
    if (found == main_.values.end()) return;
    if (!found->is_object()) main_.refuse("added_tokens_decoder", "an object of tokens by id");
    for (const auto& [key, value] : found->items()) {
      const auto token = value.is_object() ? token_of(value) : std::nullopt;
      if (!token) main_.refuse("added_tokens_decoder", "an object of tokens by id");
      config_.added[id_of(key)] = with_special_of(value, *token);
    }
  }

  // In `added_tokens_decoder` a token is special only if it says so.
  static AddedToken with_special_of(const Json& json, AddedToken token) {
    const auto says = [&](const char* key) { return json.contains(key) && !json[key].is_null(); };
    token.special = says("special") && token.special;
    if (!says("normalized")) token.normalized = !token.special;
    return token;
  }

  std::uint32_t id_of(const std::string& digits) const {
    const bool is_number = !digits.empty() && digits.size() < 10 &&
                           std::ranges::all_of(digits, [](char c) { return '0' <= c && c <= '9'; });
    if (!is_number)
      throw ConfigError(main_.file + ": 'added_tokens_decoder' has the id '" + digits +
                        "'; allowed are whole numbers from 0 on");
    return static_cast<std::uint32_t>(std::stoul(digits));
  }

  void read_older_files() {
    const Source map = read_object(folder_ / "special_tokens_map.json");
    take_named(map);
    for (const std::string& key : keys_of(map, "")) {
      const auto token = is_own_name(key) ? token_of(map.values[key]) : std::nullopt;
      if (token) set_token(first_names_, key, *token);
    }
    take_extra(map, "extra_special_tokens");
    const Source added = read_object(folder_ / "added_tokens.json");
    for (const auto& [content, id] : added.values.items()) {
      if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= UINT32_MAX)
        added.refuse(content, "the id of a token: a whole number below 2^32 - 1");
      const bool special = is_special(content);
      config_.added[id.get<std::uint32_t>()] = {
          .content = content, .special = special, .normalized = !special};
    }
    // Python reads this older key only after added_tokens.json, so that it makes no token of that
    // file special.
    if (!has_extra_) take_extra(map, "additional_special_tokens");
    if (map.values.contains("additional_special_tokens")) older_key_waits_ = false;
  }

  [[nodiscard]] bool is_special(const std::string& content) const {
    const auto is_it = [&](const AddedToken& token) { return token.content == content; };
    return std::ranges::any_of(config_.named,
                               [&](const auto& token) { return token && is_it(*token); }) ||
           std::ranges::any_of(config_.extra, is_it);
  }

  // A role may name only the content of a token; the added token of this content has the flags.
  void take_flags_of_added_tokens() {
    for (const auto& [id, token] : config_.added) {
      for (auto& named : config_.named) {
        if (named && named->content == token.content) named = token;
      }
    }
  }

  // T5's <extra_id_0> and so on.
  void add_sentinels() {
    const auto found = main_.values.find("extra_ids");
    const std::size_t count = found != main_.values.end() && found->is_number_unsigned()
                                  ? found->get<std::size_t>()
                                  : 100;
    if (count > 10'000) main_.refuse("extra_ids", "0 to 10,000");
    for (std::size_t i = 0; i < count; ++i)
      config_.extra.push_back(*token_of("<extra_id_" + std::to_string(i) + ">"));
  }

  void check_booleans() const {
    for (const char* const key :
         {"add_bos_token", "add_eos_token", "add_prefix_space", "clean_up_tokenization_spaces",
          "do_lower_case", "keep_accents", "legacy", "split_special_tokens", "strip_accents",
          "tokenize_chinese_chars", "trim_offsets"}) {
      if (!is_flag(main_.values, key)) main_.refuse(key, "true or false");
    }
  }

  void read_settings() {
    check_booleans();
    config_.padding_side = side("padding_side", config_.of_class.padding_side);
    config_.truncation_side = side("truncation_side", Side::right);
    config_.cleans_up = config_.boolean("clean_up_tokenization_spaces", false);
    for (const char* const key : {"model_max_length", "max_len"}) {
      const auto limit = main_.values.find(key);
      if (limit == main_.values.end() || limit->is_null()) continue;
      const double length = limit->is_number() ? limit->get<double>() : -1;
      if (length < 0 || length != std::floor(length)) main_.refuse(key, "a number of tokens");
      if (length < kVeryLarge) config_.model_max_length = limit->get<std::size_t>();
      break;
    }
    read_input_names();
  }

  void read_input_names() {
    auto& names = config_.model_input_names;
    names = config_.of_class.has_token_type_ids
                ? std::vector<std::string>{"input_ids", "token_type_ids", "attention_mask"}
                : std::vector<std::string>{"input_ids", "attention_mask"};
    if (config_.of_class.name.starts_with("Deberta")) std::swap(names[1], names[2]);
    const auto found = main_.values.find("model_input_names");
    if (found == main_.values.end() || found->is_null()) return;
    const bool are_names =
        found->is_array() && !found->empty() &&
        std::ranges::all_of(*found, [](const Json& name) { return name.is_string(); });
    if (!are_names) main_.refuse("model_input_names", "a list of names");
    names = found->get<std::vector<std::string>>();
  }

  [[nodiscard]] std::string text(const std::string& key, const std::string& otherwise) const {
    const auto found = main_.values.find(key);
    if (found == main_.values.end() || found->is_null()) return otherwise;
    if (!found->is_string()) main_.refuse(key, "a string");
    return found->get<std::string>();
  }

  [[nodiscard]] Side side(const std::string& key, Side otherwise) const {
    const std::string name = text(key, otherwise == Side::left ? "left" : "right");
    if (name != "left" && name != "right") main_.refuse(key, "'left' or 'right'");
    return name == "left" ? Side::left : Side::right;
  }

  std::filesystem::path folder_;
  Source main_;
  TokenizerConfig config_;
  /// Names of the model's own; of two lists, first_names_ come first and own_names_ decide.
  NamedTokens first_names_, own_names_;
  /// Whether there is a list of extra tokens. The older key waits, and is ignored if there is one.
  bool has_extra_ = false, older_key_waits_ = false;
};

}  // namespace

void take_sections(TokenizerConfig& config, const std::optional<TruncationOptions>& truncation,
                   const std::optional<PaddingOptions>& padding) {
  Json& values = config.values;
  if (truncation) {
    constexpr std::array kNames{"longest_first", "only_first", "only_second"};
    if (!values.contains("truncation_side")) config.truncation_side = truncation->side;
    values.emplace("max_length", truncation->max_length);
    values.emplace("stride", truncation->stride);
    values.emplace("truncation_strategy", kNames[static_cast<std::size_t>(truncation->strategy)]);
  }
  if (!padding) return;
  if (!values.contains("padding_side")) config.padding_side = padding->side;
  auto& token = config.named[static_cast<std::size_t>(Role::pad)];
  // The constructors of these recipes name no token as pad token, which counts as a name.
  const bool is_named = token || values.contains("pad_token") ||
                        config.of_class.recipe == Recipe::gpt2 ||
                        config.of_class.recipe == Recipe::codegen;
  if (!is_named) token = token_of(padding->token);
  const auto or_null = [](std::size_t number) { return number > 0 ? Json(number) : Json(); };
  values.emplace("max_length", or_null(padding->length));
  values.emplace("pad_to_multiple_of", or_null(padding->multiple_of));
  values.emplace("pad_token_type_id", 0);
}

TokenizerConfig read_tokenizer_config(const std::filesystem::path& folder) {
  return Reader(folder).run();
}

using Json = nlohmann::json;

Json parse_object(std::string_view text, const std::string& file, const std::string& allowed) {
  constexpr int kDepth = 64;
  const auto check_depth = [&](int depth, Json::parse_event_t, const Json&) {
    if (depth > kDepth) throw ConfigError(file + ": nests deeper than 64 levels");
    return true;
  };
  Json values = Json::parse(text, check_depth, /*allow_exceptions=*/false);
  if (!values.is_object())
    throw ConfigError(file + ": is not a JSON object; allowed is " + allowed);
  return values;
}

}  // namespace accelerate::detail
