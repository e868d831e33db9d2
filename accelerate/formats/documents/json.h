// JSON for option files and indexes, read into the same tree as YAML and under the same limits.
#pragma once

#include <string>
#include <string_view>

#include "accelerate/formats/documents/document.h"

namespace accelerate {

/// Reads one JSON value; an empty text is a null node. Strings become quoted scalars; numbers, true
/// and false plain ones. Refused with a ConfigError that names the line: duplicate keys, ill-formed
/// UTF-8, and whatever exceeds `limits`. `name` stands for the file in messages.
[[nodiscard]] Node read_json(std::string_view text, const std::string& name,
                             const DocumentLimits& limits = {});

/// The text that Python's `json.dumps(data, indent=2, sort_keys=True)` gives, and a line feed.
[[nodiscard]] std::string write_json(const Node& node);

}  // namespace accelerate
