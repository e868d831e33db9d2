// Which files of a repository are meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace accelerate {

/// Files by patterns with '*', '?', '[abc]' and '[!abc]', which match '/' too; a pattern that ends
/// in '/' means all below that folder. Case counts. Source: `filter_repo_objects` of
/// huggingface_hub, Python's fnmatchcase.
struct FilePatterns {
  std::vector<std::string> allow = {};   ///< A file must match one of them; empty allows all.
  std::vector<std::string> ignore = {};  ///< A file that matches one of them is left out.

  [[nodiscard]] bool matches(std::string_view file) const;
};

namespace detail {
/// The pattern that matches the name `file` alone.
[[nodiscard]] std::string pattern_of(std::string_view file);
/// Whether the whole of `text` matches `pattern`. '?' and sets match one code point of UTF-8.
[[nodiscard]] bool matches_pattern(std::string_view text, std::string_view pattern);
}  // namespace detail

}  // namespace accelerate
