// Reads and writes JSON for option files and indexes, as the same tree as YAML and under the same
// limits.
#pragma once

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

}  // namespace accelerate
