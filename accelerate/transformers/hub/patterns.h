// Selects files of a repository.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace accelerate {

/// Selects files by patterns with '*', '?', '[abc]' and '[!abc]', which match '/' too. A pattern
/// that ends in '/' matches everything below that folder. Case matters. Source:
/// `filter_repo_objects` of huggingface_hub, Python's fnmatchcase.
struct FilePatterns {
  std::vector<std::string> allow = {};   ///< A file must match one of these; empty allows all.
  std::vector<std::string> ignore = {};  ///< A file that matches one of these is left out.

  [[nodiscard]] bool matches(std::string_view file) const;
};

namespace detail {
/// Returns the pattern that matches only the name `file`.
[[nodiscard]] std::string pattern_of(std::string_view file);
/// Whether the whole of `text` matches `pattern`. '?' and sets match one code point of UTF-8.
[[nodiscard]] bool matches_pattern(std::string_view text, std::string_view pattern);
}  // namespace detail

}  // namespace accelerate
