// A YAML or JSON document as a small tree. Readers fill it, option tables interpret it, writers
// print it. A scalar from YAML keeps its text: the reader of a key decides what `no` or `1e3`
// means, and the parser does not guess.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace accelerate {

struct NodeEntry;

/// A node with everything below it. Copies are deep.
struct Node {
  enum class Kind { null, scalar, sequence, map };

  Kind kind = Kind::null;
  std::string text;                ///< Text of a scalar: UTF-8, quotes and escapes resolved.
  bool quoted = false;             ///< Whether a scalar is text whatever it looks like.
  int line = 0;                    ///< Line where it starts, from 1; 0 if not from a file.
  std::vector<Node> items;         ///< Items of a sequence.
  std::vector<NodeEntry> entries;  ///< Entries of a map, in the order of the file.

  // clang-format off
  [[nodiscard]] static Node null();
  [[nodiscard]] static Node string(std::string text);
  [[nodiscard]] static Node boolean(bool value);
  [[nodiscard]] static Node integer(std::int64_t value);
  /// Returns an unquoted scalar, such as a number that is text already.
  [[nodiscard]] static Node plain(std::string text);
  /// Returns the shortest text that reads back as `value`, in the spelling of YAML 1.1: "0.1",
  /// "1.0e-05", ".inf".
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

  /// Returns the value below `key` of a map; nullptr if there is none.
  [[nodiscard]] const Node* find(std::string_view key) const;

  /// Returns a description for messages: "'4' (line 3)", "a list", "a map", "nothing".
  [[nodiscard]] std::string describe() const;
};

/// One `key: value` of a map.
struct NodeEntry {
  std::string key;
  int line = 0;  ///< Line of the key, from 1.
  Node value;
};

/// How much a reader accepts before it refuses a document, which may come from somebody else. The
/// limits are checked before anything is built.
struct DocumentLimits {
  std::size_t max_bytes = 1 << 20;
  int max_depth = 16;  ///< Deepest nesting of lists and maps.
};

/// The meaning of a plain scalar in YAML 1.1, the version that PyYAML reads and writes.
enum class ScalarKind { null, boolean, integer, real, timestamp, merge, value, text };

/// Returns the kind of an unquoted scalar; `text` if no other kind fits. `1e3` is text, because
/// YAML 1.1 wants a point in a float.
[[nodiscard]] ScalarKind resolve_scalar(std::string_view text);

}  // namespace accelerate
