// YAML for option files: the part of YAML that people write into them, with everything that makes
// YAML dangerous refused. docs/formats/config.md has the rules.
//
//   Node node = read_yaml("mixed_precision: no\n", "my.yaml");
//   node.find("mixed_precision")->text            → "no"   (what it means is for the caller to say)
//   write_yaml(node)                              → the bytes PyYAML's safe_dump writes
#pragma once

#include <string>
#include <string_view>

#include "accelerate/formats/documents/document.h"

namespace accelerate {

/// Reads one YAML document; an empty text is a null node. JSON is YAML and reads as such. Refused
/// with a ConfigError that names line and cause: anchors, aliases, tags, merge keys, a second
/// document, duplicate keys, keys that are no scalars, control characters, ill-formed UTF-8, and
/// whatever exceeds `limits`. `name` stands for the file in messages.
[[nodiscard]] Node read_yaml(std::string_view text, const std::string& name,
                             const DocumentLimits& limits = {});

/// The text that PyYAML's `safe_dump` writes for the same data, byte for byte: block style, keys
/// sorted by code point, lines folded at 80 columns, strings quoted where YAML 1.1 would read
/// something else, other than ASCII escaped. An unquoted scalar is written as it stands when it
/// resolves to something else than text, and as a string otherwise; keys are strings.
[[nodiscard]] std::string write_yaml(const Node& node);

}  // namespace accelerate
