// Matches glob patterns as fsspec does, but without regular expressions. Even a hostile pattern
// costs at most its length times the length of the path.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace accelerate::detail {

/// Whether `pattern` contains '*', '?' or '['. Braces are ordinary characters, as in fsspec.
[[nodiscard]] bool has_magic(std::string_view pattern);

class Glob {
 public:
  /// '*' and '?' match within a name. "[a-z]" and "[!a]" match one character. "**" as a whole part
  /// matches any number of folders. Throws ConfigError for "**" beside other characters, and for a
  /// pattern of more than 4096 bytes.
  explicit Glob(std::string_view pattern);

  /// Whether the pattern matches the whole of `path`, which is UTF-8.
  [[nodiscard]] bool matches(std::string_view path) const;

 private:
  enum class Kind { literal, any, not_separator, set };

  // Matches one character of the path, or any number of characters if it `repeats`.
  struct Step {
    Kind kind = Kind::literal;
    char32_t character = 0;
    bool repeats = false;
    std::size_t may_skip = 0;  // Steps from this one on that may be left out together.
    bool is_negated = false;
    std::vector<std::pair<char32_t, char32_t>> ranges = {};  // Members of a set.

    [[nodiscard]] bool takes(char32_t next) const;
  };

  void add_part(std::u32string_view part, bool is_last);
  void add_name(std::u32string_view part);
  std::size_t add_set(std::u32string_view part, std::size_t begin);
  void find_literal();
  void skip_ahead(std::vector<char>& active) const;

  std::vector<Step> steps_;
  std::string literal_;  // Every path that matches contains this text.
};

}  // namespace accelerate::detail
