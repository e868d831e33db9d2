#include "accelerate/transformers/hub/patterns.h"

#include <algorithm>
#include <optional>

#include "accelerate/base/utf8.h"

namespace accelerate {
namespace {

using Text = std::u32string;

// Decodes UTF-8. A byte that is not UTF-8 becomes a value that no code point has.
Text code_points(std::string_view bytes) {
  constexpr char32_t kNoCodePoint = 0x110000;
  Text text;
  while (!bytes.empty()) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    text += take_code_point(bytes).value_or(kNoCodePoint + byte);
  }
  return text;
}

// Returns the position of the ']' of the set that begins at `open`; nullopt if the '[' only stands
// for itself.
std::optional<std::size_t> end_of_set(const Text& pattern, std::size_t open) {
  std::size_t from = open + 1;
  if (from < pattern.size() && pattern[from] == U'!') ++from;
  if (from < pattern.size() && pattern[from] == U']') ++from;  // A leading ']' belongs to the set.
  const std::size_t close = pattern.find(U']', from);
  return close == Text::npos ? std::nullopt : std::optional(close);
}

bool is_in_set(char32_t c, std::u32string_view set) {
  const bool is_negated = set.starts_with(U'!');
  if (is_negated) set.remove_prefix(1);
  bool is_member = false;
  for (std::size_t i = 0; i < set.size(); ++i) {
    const bool is_range = i + 2 < set.size() && set[i + 1] == U'-';
    const char32_t last = is_range ? set[i + 2] : set[i];
    is_member = is_member || (set[i] <= c && c <= last);
    if (is_range) i += 2;
  }
  return is_member != is_negated;
}

// Returns the length of the pattern's element at `at` if it matches `c`; 0 if it does not.
std::size_t matched_length(const Text& pattern, std::size_t at, char32_t c) {
  if (pattern[at] == U'?') return 1;
  if (pattern[at] != U'[') return pattern[at] == c ? 1 : 0;
  const auto close = end_of_set(pattern, at);
  if (!close) return c == U'[' ? 1 : 0;
  const std::u32string_view set(pattern.data() + at + 1, *close - at - 1);
  return is_in_set(c, set) ? *close - at + 1 : 0;
}

// Backtracks only to the last star: the text that earlier stars took need not change.
bool matches_all(const Text& text, const Text& pattern) {
  std::size_t t = 0;
  std::size_t p = 0;
  std::optional<std::pair<std::size_t, std::size_t>> star;  // Position after it; end of its text.
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == U'*') {
      star = {++p, t};
      continue;
    }
    const std::size_t length = p < pattern.size() ? matched_length(pattern, p, text[t]) : 0;
    if (length > 0) {
      p += length;
      ++t;
    } else if (star) {
      p = star->first;
      t = ++star->second;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of(U'*', p) == Text::npos;
}

std::string with_slashes(std::string_view text) {
  std::string slashes(text);
  std::ranges::replace(slashes, '\\', '/');
  return slashes;
}

bool matches_any(std::string_view file, const std::vector<std::string>& patterns) {
  return std::ranges::any_of(patterns, [&](const std::string& pattern) {
    const std::string slashes = with_slashes(pattern);
    return detail::matches_pattern(file, slashes.ends_with('/') ? slashes + "*" : slashes);
  });
}

}  // namespace

bool FilePatterns::matches(std::string_view file) const {
  const std::string path = with_slashes(file);
  return (allow.empty() || matches_any(path, allow)) && !matches_any(path, ignore);
}

std::string detail::pattern_of(std::string_view file) {
  std::string pattern;
  for (const char c : file) {
    const bool is_special = c == '[' || c == '*' || c == '?';
    pattern += is_special ? std::string{'[', c, ']'} : std::string(1, c);
  }
  return pattern;
}

bool detail::matches_pattern(std::string_view text, std::string_view pattern) {
  return matches_all(code_points(text), code_points(pattern));
}

}  // namespace accelerate
