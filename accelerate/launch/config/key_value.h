// Reads and writes a value of each C++ type in a configuration file, and says what is allowed.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "accelerate/base/environment.h"
#include "accelerate/base/text.h"
#include "accelerate/formats/documents/document.h"
#include "accelerate/launch/config/enums.h"
#include "accelerate/launch/config/key_flag.h"
#include "accelerate/launch/config/word.h"

namespace accelerate::detail {

/// What a key allows beyond its type.
struct KeyRules {
  std::vector<std::string> aliases{};  ///< Other spellings of the key.
  std::vector<std::string> choices{};  ///< Allowed words; any when empty. Enums bring their own.
  std::optional<std::int64_t> min{};   ///< Smallest integer.
  std::optional<std::int64_t> max{};   ///< Largest integer.
  bool not_zero = false;               ///< Zero is refused although it lies within the range.
  bool may_be_auto = false;            ///< "auto" is read as an absent key.
  /// Maps words of old files, and words that PyYAML turned into booleans, to the words they stand
  /// for.
  std::vector<std::pair<std::string, std::string>> synonyms{};
  /// What parts a list that files write as one text; empty for lists proper. Only commas part it
  /// when it is read. A text with "," may be given as a list.
  std::string joined_by{};
  std::optional<KeyFlag> flag{};  ///< Its flag of `accelerate launch`; none for files alone.
};

[[nodiscard]] inline bool is_choice(std::string_view text,
                                    const std::vector<std::string>& choices) {
  if (choices.empty()) return true;
  for (const std::string& choice : choices) {
    if (lower(choice) == lower(text)) return true;
  }
  return false;
}

/// Returns the names in `text`, which stand between commas, without blanks around them.
[[nodiscard]] inline std::vector<std::string> names_in(std::string_view text) {
  std::vector<std::string> names;
  for (const auto& part : split(text, ',')) {
    if (const auto name = trim(part); !name.empty()) names.emplace_back(name);
  }
  return names;
}

/// Specialised for each type: `type`, a word for the documentation; `choices(rules)`;
/// `allowed(rules)`, the end of "allowed is …"; `read`, nullopt when the node does not fit;
/// `write`.
template <typename T>
struct KeyValue;

template <>
struct KeyValue<bool> {
  static constexpr const char* type = "boolean";
  static std::vector<std::string> choices(const KeyRules&) { return {}; }
  static std::string allowed(const KeyRules&) { return "true or false"; }
  static std::optional<bool> read(const Node& node, const KeyRules&) {
    return node.is_scalar() ? parse_bool(node.text) : std::nullopt;
  }
  static Node write(bool value) { return Node::boolean(value); }
};

/// Reads "2" and "-1", and "1e8", which people write although YAML 1.1 calls it text.
[[nodiscard]] inline std::optional<std::int64_t> read_integer(const std::string& text) {
  if (const auto value = parse_int(text)) return value;
  constexpr double kExact = 9007199254740992.0;  // 2^53: beyond, a double skips integers.
  const auto real = parse_double(text);
  if (!real || std::trunc(*real) != *real || std::fabs(*real) > kExact) return std::nullopt;
  return static_cast<std::int64_t>(*real);
}

template <std::integral Integer>
  requires(!std::same_as<Integer, bool>)
struct KeyValue<Integer> {
  static constexpr const char* type = "integer";
  using Limits = std::numeric_limits<Integer>;

  static std::vector<std::string> choices(const KeyRules&) { return {}; }
  static std::string allowed(const KeyRules& rules) {
    std::string text = "an integer";
    if (rules.min && rules.max) {
      text += " from " + std::to_string(*rules.min) + " to " + std::to_string(*rules.max);
    } else if (rules.min) {
      text += " of at least " + std::to_string(*rules.min);
    }
    return rules.not_zero ? text + " other than 0" : text;
  }
  static std::optional<Integer> read(const Node& node, const KeyRules& rules) {
    const auto value = node.is_scalar() ? read_integer(node.text) : std::nullopt;
    if (!value || *value < rules.min.value_or(Limits::min()) || (rules.not_zero && *value == 0) ||
        *value > rules.max.value_or(Limits::max())) {
      return std::nullopt;
    }
    return static_cast<Integer>(*value);
  }
  static Node write(Integer value) { return Node::integer(value); }
};

template <>
struct KeyValue<double> {
  static constexpr const char* type = "number";
  static std::vector<std::string> choices(const KeyRules&) { return {}; }
  static std::string allowed(const KeyRules& rules) {
    return rules.min ? "a number of at least " + std::to_string(*rules.min) : "a number";
  }
  static std::optional<double> read(const Node& node, const KeyRules& rules) {
    const auto value = node.is_scalar() ? parse_double(node.text) : std::nullopt;
    const bool fits =
        value && std::isfinite(*value) && (!rules.min || *value >= static_cast<double>(*rules.min));
    return fits ? value : std::nullopt;
  }
  static Node write(double value) { return Node::real(value); }
};

template <>
struct KeyValue<std::string> {
  static constexpr const char* type = "text";
  static std::vector<std::string> choices(const KeyRules& rules) { return rules.choices; }
  static std::string allowed(const KeyRules& rules) {
    if (rules.joined_by == ",") return "a text such as 'A,B', or a list of texts";
    return rules.choices.empty() ? "a text" : "one of " + join(rules.choices, ", ");
  }
  static std::optional<std::string> read(const Node& node, const KeyRules& rules) {
    if (rules.joined_by == "," && node.is_sequence()) return joined(node);
    if (!node.is_scalar() || !is_choice(node.text, rules.choices)) return std::nullopt;
    return node.text;
  }
  static Node write(const std::string& value) { return Node::string(value); }

 private:
  static std::optional<std::string> joined(const Node& list) {
    std::vector<std::string> texts;
    for (const Node& item : list.items) {
      if (!item.is_scalar() || item.is_null()) return std::nullopt;
      texts.push_back(item.text);
    }
    return join(texts, ",");
  }
};

template <>
struct KeyValue<BoolOrWord> {
  static constexpr const char* type = "boolean or word";
  static std::vector<std::string> choices(const KeyRules& rules) { return rules.choices; }
  static std::string allowed(const KeyRules& rules) {
    return "true, false" +
           (rules.choices.empty() ? " or a text" : " or one of " + join(rules.choices, ", "));
  }
  // Quoted words stay words, so that `'no'` is written back as it was.
  static std::optional<BoolOrWord> read(const Node& node, const KeyRules& rules) {
    if (!node.is_scalar()) return std::nullopt;
    const auto truth = parse_bool(node.text);
    const bool is_word = is_choice(node.text, rules.choices);
    if (is_word && (node.quoted || !truth)) return node.text;
    if (truth) return *truth;
    return std::nullopt;
  }
  static Node write(const BoolOrWord& value) {
    const auto* truth = std::get_if<bool>(&value);
    return truth != nullptr ? Node::boolean(*truth) : Node::string(std::get<std::string>(value));
  }
};

template <WordedEnum Enum>
struct KeyValue<Enum> {
  static constexpr const char* type = "word";
  static std::vector<std::string> choices(const KeyRules&) { return enum_names<Enum>(); }
  static std::string allowed(const KeyRules&) { return "one of " + join(enum_names<Enum>(), ", "); }
  static std::optional<Enum> read(const Node& node, const KeyRules&) {
    return node.is_scalar() ? parse_enum<Enum>(node.text) : std::nullopt;
  }
  static Node write(Enum value) { return Node::string(std::string(to_string(value))); }
};

template <WordedEnum Enum>
struct KeyValue<Word<Enum>> : KeyValue<Enum> {
  static std::optional<Word<Enum>> read(const Node& node, const KeyRules& rules) {
    return KeyValue<Enum>::read(node, rules);
  }
};

/// A boolean or a word.
template <WordedEnum Enum>
struct KeyValue<std::variant<bool, Enum>> {
  using Value = std::variant<bool, Enum>;
  static constexpr const char* type = "boolean or word";
  static std::vector<std::string> choices(const KeyRules&) { return enum_names<Enum>(); }
  static std::string allowed(const KeyRules&) {
    return "true, false or one of " + join(enum_names<Enum>(), ", ");
  }
  static std::optional<Value> read(const Node& node, const KeyRules& rules) {
    if (const auto word = KeyValue<Enum>::read(node, rules)) return *word;
    return KeyValue<bool>::read(node, rules);
  }
  static Node write(const Value& value) {
    const auto* truth = std::get_if<bool>(&value);
    return truth != nullptr ? Node::boolean(*truth) : KeyValue<Enum>::write(std::get<Enum>(value));
  }
};

template <>
struct KeyValue<std::vector<std::string>> {
  static constexpr const char* type = "list of texts";
  static std::vector<std::string> choices(const KeyRules&) { return {}; }
  static std::string allowed(const KeyRules&) { return "a list of texts"; }
  static std::optional<std::vector<std::string>> read(const Node& node, const KeyRules& rules) {
    if (node.is_scalar() && rules.joined_by == ",") return names_in(node.text);
    if (node.is_scalar()) return std::vector<std::string>{node.text};
    if (!node.is_sequence()) return std::nullopt;
    std::vector<std::string> texts;
    for (const Node& item : node.items) {
      if (!item.is_scalar()) return std::nullopt;
      texts.push_back(item.text);
    }
    return texts;
  }
  static Node write(const std::vector<std::string>& value, const KeyRules& rules = {}) {
    if (!rules.joined_by.empty()) return Node::string(join(value, rules.joined_by));
    Node list = Node::sequence();
    for (const std::string& text : value) list.items.push_back(Node::string(text));
    return list;
  }
};

/// Three booleans: a list, "true,false,false", or "(true, false, false)" as Python prints a tuple;
/// one boolean stands for all three.
template <>
struct KeyValue<std::vector<bool>> {
  static constexpr const char* type = "list of booleans";
  static std::vector<std::string> choices(const KeyRules&) { return {}; }
  static std::string allowed(const KeyRules&) { return "a list of three booleans"; }
  static std::optional<std::vector<bool>> read(const Node& node, const KeyRules& rules) {
    std::vector<bool> flags;
    for (const std::string& text :
         KeyValue<std::vector<std::string>>::read(split_words(node), rules)
             .value_or(std::vector<std::string>{})) {
      const auto flag = parse_bool(trim(text));
      if (!flag) return std::nullopt;
      flags.push_back(*flag);
    }
    if (flags.size() == 1) flags.assign(3, flags.front());
    return flags.size() == 3 ? std::optional(flags) : std::nullopt;
  }
  static Node write(const std::vector<bool>& value) {
    Node list = Node::sequence();
    for (const bool flag : value) list.items.push_back(Node::boolean(flag));
    return list;
  }

 private:
  static Node split_words(const Node& node) {
    if (!node.is_scalar()) return node;
    std::string_view text = trim(node.text);
    const bool is_tuple = text.starts_with('(') && text.ends_with(')');
    const bool is_list = text.starts_with('[') && text.ends_with(']');
    if (is_tuple || is_list) text = text.substr(1, text.size() - 2);
    return KeyValue<std::vector<std::string>>::write(split(text, ','));
  }
};

}  // namespace accelerate::detail
