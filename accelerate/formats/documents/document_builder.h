// What the YAML and the JSON reader share: the checks a text must pass before it is parsed, and the
// building of the tree from a parser's events under the limits of a document.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "accelerate/formats/documents/document.h"

namespace accelerate::detail {

/// Throws ConfigError "NAME, line LINE: MESSAGE", without the line when it is 0.
[[noreturn]] void fail_at(const std::string& name, int line, const std::string& message);

/// The code points of `utf8`; ill-formed bytes are a ConfigError that names the line.
[[nodiscard]] std::u32string decode_utf8(std::string_view utf8, const std::string& name);

/// `text` with each stray byte 0x80…0xBF taken for the code point of that number.
[[nodiscard]] std::string mend_latin1(std::string_view text);

/// Refuses a text that is longer than the limit, is not UTF-8, or holds control characters.
void check_text(std::string_view text, const std::string& name, const DocumentLimits& limits);

/// Receives events in document order; every fault is a ConfigError that names the line.
class DocumentBuilder {
 public:
  DocumentBuilder(std::string name, DocumentLimits limits)
      : name_(std::move(name)), limits_(limits) {}

  void begin(Node::Kind kind, int line);  ///< A sequence or a map opens.
  void end();                             ///< The innermost sequence or map closes.
  void scalar(Node value);                ///< A scalar or null, where a value belongs.
  void key(std::string text, int line);   ///< The key of the next value of the innermost map.

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
    bool has_key = false;  // A map's last entry still waits for its value.
  };

  void attach(Node value);

  std::string name_;
  DocumentLimits limits_;
  std::vector<Level> open_;
  Node root_;
};

}  // namespace accelerate::detail
