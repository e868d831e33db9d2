// Reads and writes JSON. docs/decisions/json.md says which JSON becomes a document, which one a value
// of nlohmann::json, and which one is read by simdjson.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "accelerate/formats/documents/document.h"

namespace accelerate {

/// Reads one JSON value; an empty text is a null node. Strings become quoted scalars; numbers, true
/// and false become plain scalars. Throws ConfigError, with the line, for duplicate keys,
/// ill-formed UTF-8, text that is not JSON, and whatever exceeds `limits`. `name` stands for the
/// file in messages.
[[nodiscard]] Node read_json(std::string_view text, const std::string& name,
                             const DocumentLimits& limits = {});

/// Returns the text that Python's `json.dumps(data, indent=2, sort_keys=True)` gives, plus a line
/// feed.
[[nodiscard]] std::string write_json(const Node& node);

namespace detail {

/// Returns `text` in quotes with the escapes of `write_json`: everything beyond ASCII is escaped.
/// Throws ConfigError for text that is not UTF-8.
[[nodiscard]] std::string ascii_json_string(std::string_view text);

/// Returns the value of `text`, which another program wrote; a discarded value if `text` is not
/// JSON.
[[nodiscard]] nlohmann::json parse_json(std::string_view text);

/// Returns `value` in one line, or with line ends and `indent` blanks for each level. Only what JSON
/// demands is escaped. U+FFFD replaces what is not UTF-8.
[[nodiscard]] std::string json_text(const nlohmann::json& value);
[[nodiscard]] std::string json_text(const nlohmann::ordered_json& value, int indent = -1);

/// Returns `value`; "NaN", "Infinity" or "-Infinity" for what JSON has no numbers for. Source: the
/// JSON form of Protocol Buffers.
[[nodiscard]] nlohmann::ordered_json json_number(double value);

/// Returns `text` in quotes with the escapes of json_text().
[[nodiscard]] std::string json_string(std::string_view text);

}  // namespace detail
}  // namespace accelerate
