// YAML for option files: the part of YAML that people write in them. Everything that makes YAML
// dangerous is refused. docs/formats/config.md has the rules.
//
//   Node node = read_yaml("mixed_precision: no\n", "my.yaml");
//   node.find("mixed_precision")->text  → "no"; the caller decides what it means
//   write_yaml(node)                    → the bytes that PyYAML's safe_dump writes
#pragma once

#include <string>
#include <string_view>

#include "accelerate/formats/documents/document.h"

namespace accelerate {

/// Reads one YAML document; an empty text is a null node. JSON is YAML and reads as such. Throws
/// ConfigError, with line and cause, for anchors, aliases, tags, merge keys, a second document,
/// duplicate keys, keys that are not scalars, control characters, ill-formed UTF-8, and whatever
/// exceeds `limits`. `name` stands for the file in messages.
[[nodiscard]] Node read_yaml(std::string_view text, const std::string& name,
                             const DocumentLimits& limits = {});

/// Returns the text that PyYAML's `safe_dump` writes for the same data, byte for byte. That is
/// block style, keys sorted by code point, lines folded at 80 columns, characters beyond ASCII
/// escaped. Strings are quoted where YAML 1.1 would read something else. An unquoted scalar that
/// resolves to something else than text is written unchanged; otherwise it is written as a string.
/// Keys are strings.
[[nodiscard]] std::string write_yaml(const Node& node);

}  // namespace accelerate
