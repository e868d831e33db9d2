#include "accelerate/launch/config/deepspeed_check.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "accelerate/base/error_name.h"
#include "accelerate/base/text.h"
#include "accelerate/formats/documents/document_builder.h"
#include "accelerate/launch/config/deepspeed_keys.h"
#include "accelerate/launch/config/key_value.h"

namespace accelerate::detail {
namespace {

constexpr std::size_t kLongestShown = 60;

std::optional<double> number_in(const Node& value) {
  return value.is_scalar() && !value.quoted ? parse_double(value.text) : std::nullopt;
}

std::string words_of_kind(DeepSpeedKind kind) {
  switch (kind) {
    case DeepSpeedKind::boolean:
      return "true or false";
    case DeepSpeedKind::integer:
      return "a whole number";
    case DeepSpeedKind::number:
      return "a number";
    case DeepSpeedKind::text:
      return "a text";
    case DeepSpeedKind::texts:
      return "a list of texts";
    case DeepSpeedKind::numbers:
      return "a list of numbers";
    case DeepSpeedKind::section:
    case DeepSpeedKind::map:
      return "a map";
    case DeepSpeedKind::anything:
      return "any value";
  }
  return "";
}

std::string short_number(double value) {
  const std::string text = Node::real(value).text;
  return text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
}

// Returns the end of "allowed is …".
std::string allowed_by(const DeepSpeedKey& key) {
  const DeepSpeedRules& rules = key.rules;
  std::string words =
      rules.choices.empty() ? words_of_kind(key.kind) : "one of " + join(rules.choices, ", ");
  const bool has_min = std::isfinite(rules.min), has_max = std::isfinite(rules.max);
  if (has_min && has_max)
    words += " from " + short_number(rules.min) + " to " + short_number(rules.max);
  else if (has_min)
    words += " of at least " + short_number(rules.min);
  return rules.may_be_auto ? words + ", or \"auto\"" : words;
}

bool fits_number(const DeepSpeedKey& key, const Node& value) {
  const auto number = number_in(value);
  if (!number || !std::isfinite(*number)) return false;
  constexpr double kExact = 9007199254740992.0;  // 2^53: beyond, a double skips integers.
  if (key.kind == DeepSpeedKind::integer &&
      (*number != std::floor(*number) || std::abs(*number) > kExact))
    return false;
  return *number >= key.rules.min && *number <= key.rules.max;
}

bool fits(const DeepSpeedKey& key, const Node& value) {
  const auto is_text = [](const Node& node) { return node.is_scalar() && node.quoted; };
  const auto all = [&](const auto& holds) {
    return value.is_sequence() && std::all_of(value.items.begin(), value.items.end(), holds);
  };
  if (value.is_null() || (key.rules.may_be_auto && is_auto_word(value))) return true;
  switch (key.kind) {
    case DeepSpeedKind::boolean:
      return value.is_scalar() && !value.quoted && (value.text == "true" || value.text == "false");
    case DeepSpeedKind::integer:
    case DeepSpeedKind::number:
      return fits_number(key, value);
    case DeepSpeedKind::text:
      return is_text(value) && is_choice(value.text, key.rules.choices);
    case DeepSpeedKind::texts:
      return all(is_text);
    case DeepSpeedKind::numbers:
      return all([&](const Node& item) { return fits_number(key, item); });
    case DeepSpeedKind::section:
    case DeepSpeedKind::map:
      return value.is_map();
    case DeepSpeedKind::anything:
      return true;
  }
  return false;
}

// Whether the value asks for what the key stands for.
bool asks(const DeepSpeedKey& key, const Node& value) {
  if (value.is_null()) return false;
  if (value.is_map()) return !value.entries.empty();
  if (value.is_sequence()) return !value.items.empty();
  const std::string text = lower(value.text);
  if (key.rules.idle == "true") return text == "false";
  if (text.empty() || text == "false" || text == "none" || text == "auto") return false;
  const auto number = number_in(value), idle = parse_double(key.rules.idle);
  if (number && (*number == 0 || number == idle)) return false;
  return text != key.rules.idle;
}

// Whether the table has keys below a map; these then say what the map asks for.
bool has_rows_below(const DeepSpeedKey& key) {
  const auto& keys = deepspeed_keys();
  return std::any_of(keys.begin(), keys.end(), [&](const DeepSpeedKey& other) {
    return other.path.starts_with(key.path + ".");
  });
}

class KeyCheck {
 public:
  explicit KeyCheck(const std::string& name) : name_(name) {}

  void section(const std::string& prefix, const Node& map) {
    for (const NodeEntry& entry : map.entries) {
      const std::string path = prefix.empty() ? entry.key : prefix + "." + entry.key;
      if (const DeepSpeedKey* key = find_deepspeed_key(path))
        value(*key, entry);
      else if (!is_free(prefix))
        fail_unknown(prefix, entry);
    }
  }

  [[nodiscard]] std::vector<std::string> elsewhere() && { return std::move(elsewhere_); }

 private:
  static bool is_free(const std::string& prefix) {
    const DeepSpeedKey* key = find_deepspeed_key(prefix);
    return key != nullptr && key->kind == DeepSpeedKind::map;
  }

  void value(const DeepSpeedKey& key, const NodeEntry& entry) {
    if (!fits(key, entry.value)) fail_value(key, entry);
    const bool is_decided_below = entry.value.is_map() && has_rows_below(key);
    if (!is_decided_below && asks(key, entry.value)) note(key, entry);
    if (entry.value.is_map()) section(key.path, entry.value);
  }

  void note(const DeepSpeedKey& key, const NodeEntry& entry) {
    if (key.fate == DeepSpeedFate::elsewhere) elsewhere_.push_back(key.path + " (" + key.why + ")");
    if (!is_refused(key.fate)) return;
    const std::string reason(words_of(key.fate));
    fail_at(name_, entry.line,
            key.path + " is " + shown(entry.value) + ", which is " + reason + " (" + key.why +
                "). Leave the key out, or set it to what asks for nothing.",
            error_name::kDeepspeedKey);
  }

  static std::string shown(const Node& value) {
    if (!value.is_scalar()) return value.describe();
    const std::string text = value.text.substr(0, kLongestShown);
    return value.quoted ? "\"" + text + "\"" : text;
  }

  [[noreturn]] void fail_value(const DeepSpeedKey& key, const NodeEntry& entry) const {
    fail_at(name_, entry.line,
            key.path + " is " + shown(entry.value) + "; allowed is " + allowed_by(key) + "." +
                did_you_mean(entry.value.text, key.rules.choices));
  }

  [[noreturn]] void fail_unknown(const std::string& prefix, const NodeEntry& entry) const {
    std::vector<std::string> known;
    for (const DeepSpeedKey& key : deepspeed_keys()) {
      const auto point = key.path.rfind('.');
      const std::string parent = point == std::string::npos ? "" : key.path.substr(0, point);
      if (parent == prefix) known.push_back(key.path.substr(point + 1));
    }
    const std::string where = prefix.empty() ? "DeepSpeed's file" : "its section '" + prefix + "'";
    fail_at(name_, entry.line,
            "'" + entry.key.substr(0, kLongestShown) + "' is no key of " + where + "." +
                did_you_mean(entry.key, known),
            error_name::kDeepspeedKey);
  }

  const std::string& name_;
  std::vector<std::string> elsewhere_;
};

}  // namespace

bool is_auto_word(const Node& value) {
  return value.is_scalar() && value.quoted && value.text == "auto";
}

std::vector<std::string> check_deepspeed_keys(const Node& root, const std::string& name) {
  KeyCheck check(name);
  check.section("", root);
  return std::move(check).elsewhere();
}

}  // namespace accelerate::detail
