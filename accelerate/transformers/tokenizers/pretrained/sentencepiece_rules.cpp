#include "accelerate/transformers/tokenizers/pretrained/sentencepiece_rules.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accelerate/base/bytes.h"

namespace accelerate::detail {
namespace {

using Json = nlohmann::json;

// Returns a pattern that matches `text`, whose spaces have become blanks, and nothing else.
std::string pattern_of(std::string_view text, std::string_view blank) {
  std::string pattern;
  for (const char byte : text) {
    if (std::string_view("\\^$.|?*+()[]{}").find(byte) != std::string_view::npos) pattern += '\\';
    if (byte == ' ') {
      pattern += blank;
    } else {
      pattern += byte;
    }
  }
  return pattern;
}

// Returns the condition that the text is no user-defined symbol. These are found in normalized text,
// for which they are normalized themselves: they must get no dummy blank then.
std::string unless_symbol(const SentencePieceModel& model, const std::string& blank) {
  const bool looks_back = model.treats_whitespace_as_suffix;
  std::string alternatives;
  for (const auto& piece : model.pieces) {
    if (!is_symbol(model, piece)) continue;
    const std::string pattern = pattern_of(piece.text, blank);
    alternatives += alternatives.empty() ? "" : "|";
    alternatives += looks_back ? "\\A" + pattern : pattern + "\\z";
  }
  if (alternatives.empty()) return "";
  return (looks_back ? "(?<!" : "(?!") + alternatives + ")";
}

}  // namespace

bool is_in_texts(const SentencePieceModel& model, const SentencePieceModel::Piece& piece) {
  using Kind = SentencePieceModel::Kind;
  const bool holds_space = model.escapes_whitespaces && piece.text.find(' ') != std::string::npos;
  return piece.kind == Kind::normal || (piece.kind == Kind::user_defined && !holds_space);
}

bool is_symbol(const SentencePieceModel& model, const SentencePieceModel::Piece& piece) {
  const bool is_stripped =
      model.removes_extra_whitespaces && std::string_view(piece.text).ends_with(kBlank);
  return piece.kind == SentencePieceModel::Kind::user_defined && is_in_texts(model, piece) &&
         !is_stripped;
}

bool finds_symbols_in_normalized_text(const SentencePieceModel& model) {
  // One pattern holds all symbols, and PCRE2 takes patterns of up to 64 KiB.
  constexpr std::size_t kMostBytes = 16'000;
  std::size_t bytes = 0;
  for (const auto& piece : model.pieces) {
    if (is_symbol(model, piece)) bytes += piece.text.size() + 4;
  }
  return !model.adds_dummy_prefix || bytes <= kMostBytes;
}

Json replacement(const Json& pattern, const std::string& content) {
  return {{"type", "Replace"}, {"pattern", pattern}, {"content", content}};
}

std::optional<Json> precompiled_of(const SentencePieceModel& model) {
  if (model.charsmap.empty()) return std::nullopt;
  return Json{{"type", "Precompiled"}, {"precompiled_charsmap", to_base64(model.charsmap)}};
}

Json normalizer_of_sentencepiece(const SentencePieceModel& model) {
  const std::string blank = model.escapes_whitespaces ? kBlank : " ";
  Json parts = Json::array();
  if (auto rules = precompiled_of(model)) parts.push_back(std::move(*rules));
  if (model.removes_extra_whitespaces) {
    parts.push_back(replacement({{"Regex", "\\A +"}}, ""));
    parts.push_back(replacement({{"Regex", " {2,}"}}, " "));
  }
  if (model.escapes_whitespaces) parts.push_back(replacement({{"String", " "}}, kBlank));
  const std::string condition =
      finds_symbols_in_normalized_text(model) ? unless_symbol(model, blank) : "";
  if (model.adds_dummy_prefix && !model.treats_whitespace_as_suffix)
    parts.push_back(replacement({{"Regex", "\\A(?=[\\s\\S])" + condition}}, blank));
  const std::string blanks_at_end = "(?<!" + blank + ")" + blank + "+\\z";
  if (!model.adds_dummy_prefix || !model.treats_whitespace_as_suffix) {
    if (model.removes_extra_whitespaces)
      parts.push_back(replacement({{"Regex", blanks_at_end}}, ""));
  } else if (model.removes_extra_whitespaces) {
    const std::string no_blank_at_end = "(?<=[^" + blank + "])" + condition + "\\z";
    parts.push_back(replacement({{"Regex", blanks_at_end + "|" + no_blank_at_end}}, blank));
  } else {
    parts.push_back(replacement({{"Regex", "(?<=[\\s\\S])" + condition + "\\z"}}, blank));
  }
  return {{"type", "Sequence"}, {"normalizers", std::move(parts)}};
}

void take_roles_of_sentencepiece(const SentencePieceModel& model, TokenizerConfig& config) {
  const auto take = [&](Role role, std::int32_t id) {
    const auto place = static_cast<std::size_t>(role);
    const bool is_named =
        config.named[place] || config.values.contains(std::string(kRoleKeys[place]));
    if (is_named || id < 0 || static_cast<std::size_t>(id) >= model.pieces.size()) return;
    config.named[place] = AddedToken{.content = model.pieces[static_cast<std::size_t>(id)].text,
                                     .special = true,
                                     .normalized = false};
  };
  take(Role::bos, model.bos_id);
  take(Role::eos, model.eos_id);
  take(Role::unk, model.unk_id);
}

}  // namespace accelerate::detail
