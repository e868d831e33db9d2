// Glob patterns as fsspec translates them, without its regular expressions: a hostile pattern costs
// no more than its length times the length of the path.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace accelerate::detail {

/// Tells whether `pattern` has '*', '?' or '['. Braces are ordinary characters, as in fsspec.
[[nodiscard]] bool has_magic(std::string_view pattern);

class Glob {
 public:
  /// '*' and '?' match within a name, "[a-z]" and "[!a]" one character, "**" as a whole part any
  /// number of folders. Throws ConfigError for "**" beside other characters, and for more than
  /// 4096 bytes.
  explicit Glob(std::string_view pattern);

  /// Tells whether the whole of `path`, which is UTF-8, matches.
  [[nodiscard]] bool matches(std::string_view path) const;

 private:
  enum class Kind { literal, any, not_separator, set };

  // One character of the path, or any number of them.
  struct Step {
    Kind kind = Kind::literal;
    char32_t character = 0;
    bool repeats = false;
    std::size_t may_skip = 0;  // So many steps, from this one on, may be left out together.
    bool is_negated = false;
    std::vector<std::pair<char32_t, char32_t>> ranges = {};  // Of a set.

    [[nodiscard]] bool takes(char32_t next) const;
  };

  void add_part(std::u32string_view part, bool is_last);
  void add_name(std::u32string_view part);
  std::size_t add_set(std::u32string_view part, std::size_t begin);
  void find_literal();
  void skip_ahead(std::vector<char>& active) const;

  std::vector<Step> steps_;
  std::string literal_;  // Each path that matches has this text.
};

}  // namespace accelerate::detail
