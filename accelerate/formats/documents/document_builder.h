// What the YAML and JSON readers share: the checks of a text before it is parsed, and a builder
// that makes the tree from a parser's events within the limits of a document.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/formats/documents/document.h"

namespace accelerate::detail {

/// Throws ConfigError "NAME, line LINE: MESSAGE", without the line when it is 0.
[[noreturn]] void fail_at(const std::string& name, int line, const std::string& message,
                          ErrorName situation = {});

/// Returns the code points of `utf8`, a text to write. Throws ConfigError, with the line, for
/// ill-formed bytes.
[[nodiscard]] std::u32string decode_utf8(std::string_view utf8);

/// Returns `text` with each stray byte 0x80…0xBF replaced by the code point of that number, in
/// UTF-8.
[[nodiscard]] std::string mend_latin1(std::string_view text);

/// Throws ConfigError for a text that exceeds the limit, is not UTF-8, or holds control characters.
void check_text(std::string_view text, const std::string& name, const DocumentLimits& limits);

/// Receives events in document order. Throws ConfigError, with the line, for every fault.
class DocumentBuilder {
 public:
  DocumentBuilder(std::string name, DocumentLimits limits)
      : name_(std::move(name)), limits_(limits) {}

  void begin(Node::Kind kind, int line);  ///< Opens a sequence or a map.
  void end();                             ///< Closes the innermost sequence or map.
  void scalar(Node value);                ///< Adds a scalar or null where a value belongs.
  void key(std::string text, int line);   ///< Adds a key to the innermost map; its value is next.

  /// Whether the innermost open node is a map that waits for its next key.
  [[nodiscard]] bool wants_key() const;
  [[nodiscard]] Node take() { return std::move(root_); }
  [[noreturn]] void fail(int line, const std::string& message) const {
    fail_at(name_, line, message);
  }

 private:
  struct Level {
    Node node;
    std::unordered_map<std::string, int> lines_of_keys;
    bool has_key = false;  // Whether a map's last entry still waits for its value.
  };

  void attach(Node value);

  std::string name_;
  DocumentLimits limits_;
  std::vector<Level> open_;
  Node root_;
};

}  // namespace accelerate::detail
