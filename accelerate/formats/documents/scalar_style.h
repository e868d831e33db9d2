// The ways to write a scalar in block context. Source: PyYAML's emitter (`analyze_scalar`,
// `choose_scalar_style`, `check_simple_key` in yaml/emitter.py, PyYAML 6).
#pragma once

#include <string>
#include <string_view>

namespace accelerate::detail {

enum class ScalarStyle { plain, single_quoted, double_quoted };

/// A scalar and the styles that keep its meaning.
struct Scalar {
  std::u32string text;
  bool resolves = false;   ///< Whether it reads back unchanged when unquoted.
  bool multiline = false;  ///< Whether it holds a line break of any kind.
  bool allow_plain = false;
  bool allow_single_quoted = false;

  [[nodiscard]] ScalarStyle style(bool simple_key) const;
  /// Whether it can stand before a ':' on one line.
  [[nodiscard]] bool is_simple_key() const;
};

/// Analyses a scalar: text if `is_string`, else whatever `text` resolves to.
[[nodiscard]] Scalar analyze_scalar(std::string_view text, bool is_string);

/// Whether `c` is escaped inside double quotes.
[[nodiscard]] bool needs_escape(char32_t c);

/// Returns `c` as an escape sequence: "\n", "\xE4", "\u263A", "\U0001F600"….
[[nodiscard]] std::u32string escape(char32_t c);

}  // namespace accelerate::detail
