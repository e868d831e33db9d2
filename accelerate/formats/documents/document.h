// A YAML or JSON document as a small tree. Readers fill it, option tables interpret it, writers
// print it. A scalar keeps the text it was written with: what `no` or `1e3` means is for the reader
// of a key to say, not for a parser to guess.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace accelerate {

struct NodeEntry;

/// A node and what hangs below it. Copies are deep.
struct Node {
  enum class Kind { null, scalar, sequence, map };

  Kind kind = Kind::null;
  std::string text;                ///< Of a scalar, UTF-8, quotes and escapes resolved.
  bool quoted = false;             ///< A scalar that is text whatever it looks like.
  int line = 0;                    ///< Where it starts, from 1; 0 when it was not read from a file.
  std::vector<Node> items;         ///< Of a sequence.
  std::vector<NodeEntry> entries;  ///< Of a map, in the order of the file.

  // clang-format off
  [[nodiscard]] static Node null();
  [[nodiscard]] static Node string(std::string text);
  [[nodiscard]] static Node boolean(bool value);
  [[nodiscard]] static Node integer(std::int64_t value);
  /// The shortest text that reads back as `value`, as YAML 1.1 spells it: "0.1", "1.0e-05", ".inf".
  [[nodiscard]] static Node real(double value);
  [[nodiscard]] static Node sequence(std::vector<Node> items);
  [[nodiscard]] static Node sequence();
  [[nodiscard]] static Node map(std::vector<NodeEntry> entries);
  [[nodiscard]] static Node map();
  // clang-format on

  [[nodiscard]] bool is_null() const { return kind == Kind::null; }
  [[nodiscard]] bool is_scalar() const { return kind == Kind::scalar; }
  [[nodiscard]] bool is_sequence() const { return kind == Kind::sequence; }
  [[nodiscard]] bool is_map() const { return kind == Kind::map; }

  /// The value below `key` of a map; nullptr when there is none.
  [[nodiscard]] const Node* find(std::string_view key) const;

  /// What it is, for messages: "'4' (line 3)", "a list", "a map", "nothing".
  [[nodiscard]] std::string describe() const;
};

/// One `key: value` of a map.
struct NodeEntry {
  std::string key;
  int line = 0;  ///< Of the key, from 1.
  Node value;
};

/// How much a reader accepts before it refuses. A document is someone else's text: the caps hold
/// before anything is built.
struct DocumentLimits {
  std::size_t max_bytes = 1 << 20;
  int max_depth = 16;  ///< Of nested lists and maps.
};

/// What a plain scalar means in YAML 1.1, which is what PyYAML reads and writes.
enum class ScalarKind { null, boolean, integer, real, timestamp, merge, value, text };

/// Resolves an unquoted scalar; `text` when nothing else fits. `1e3` is text: YAML 1.1 wants a
/// point.
[[nodiscard]] ScalarKind resolve_scalar(std::string_view text);

}  // namespace accelerate
