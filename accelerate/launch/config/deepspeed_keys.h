// The keys of DeepSpeed's own JSON file: one table that says what each key may be and what becomes
// of it. docs/deepspeed.md shows the table. Source: the schema of DeepSpeed 0.19.
#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace accelerate::detail {

/// What a key's value is. A `section` has keys of its own in the table; a `map` holds anything.
enum class DeepSpeedKind { boolean, integer, number, text, texts, numbers, section, map, anything };

/// What becomes of a key.
enum class DeepSpeedFate {
  effect,      ///< Decides how this library trains.
  not_needed,  ///< Changes nothing here, and nothing is missing.
  elsewhere,   ///< Warned of when it asks for something: a program asks for it in another way.
  device,      ///< Refused when it asks for something: it serves a device that LibTorch has not.
  python,      ///< Refused in the same way: it serves Python code.
  algorithm,   ///< Refused in the same way: an algorithm that changes results and is not built.
};

/// What a value must hold to beyond its kind.
struct DeepSpeedRules {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  std::vector<std::string> choices{};  ///< Of a text, in lower case; empty: any text.
  bool may_be_auto = false;            ///< Whether "auto" is a value.
  /// The value that asks for nothing, as text. False, 0, nothing, "none", "auto", and empty lists
  /// and maps never ask for anything.
  std::string idle{};
};

struct DeepSpeedKey {
  std::string path;  ///< Keys from the outermost on, joined by points.
  DeepSpeedKind kind = DeepSpeedKind::anything;
  DeepSpeedFate fate = DeepSpeedFate::not_needed;
  std::string why;  ///< The effect, or the reason for none, in a few words.
  DeepSpeedRules rules{};
};

/// Returns every key, sections before what they hold.
[[nodiscard]] const std::vector<DeepSpeedKey>& deepspeed_keys();

/// Returns the key of that path; nullptr if DeepSpeed has none.
[[nodiscard]] const DeepSpeedKey* find_deepspeed_key(std::string_view path);

[[nodiscard]] bool is_refused(DeepSpeedFate fate);

/// Returns what the page says of a fate: "effect", "none needed", "asked for elsewhere", or
/// "refused" with its reason.
[[nodiscard]] std::string_view words_of(DeepSpeedFate fate);

}  // namespace accelerate::detail
