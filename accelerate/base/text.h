// Small text helpers that more than one folder needs.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace accelerate {

/// ASCII lower case of `text`.
[[nodiscard]] std::string lower(std::string_view text);

/// ASCII capitals of `text`.
[[nodiscard]] std::string upper(std::string_view text);

/// `text` without leading and trailing blanks, tabs and line ends.
[[nodiscard]] std::string_view trim(std::string_view text);

/// "a, b, c" for {"a", "b", "c"} and ", ".
[[nodiscard]] std::string join(const std::vector<std::string>& parts, std::string_view separator);

/// Returns "0, 2-5, 9" for {0, 2, 3, 4, 5, 9}; `numbers` must ascend.
[[nodiscard]] std::string ranges(const std::vector<int>& numbers);

/// The parts between `separator`s; "a,,b" has three, "" has one empty part.
[[nodiscard]] std::vector<std::string> split(std::string_view text, char separator);

/// A whole decimal integer with optional sign and nothing else around it; nullopt otherwise or on
/// overflow.
[[nodiscard]] std::optional<std::int64_t> parse_int(std::string_view text);

/// A whole decimal floating-point number ("1e-3", "2", "-.5"); nullopt otherwise.
[[nodiscard]] std::optional<double> parse_double(std::string_view text);

/// The candidate nearest to `word` by edit distance (insert, delete, replace, swap of neighbours),
/// case ignored, when it is near enough to be a likely misspelling; nullopt otherwise.
/// Cost: |word| × |candidate| for each candidate.
[[nodiscard]] std::optional<std::string> nearest(std::string_view word,
                                                 const std::vector<std::string>& candidates);

/// " Did you mean 'x'?" or "", to be appended to a message.
[[nodiscard]] std::string did_you_mean(std::string_view word,
                                       const std::vector<std::string>& candidates);

/// "1 tensor", "2 tensors": `what` is the singular of a regular noun.
[[nodiscard]] std::string count_of(std::size_t count, std::string_view what);

/// Returns `word` as a shell reads it: in quotes when it is empty or holds anything but letters,
/// digits and @%+=:,./_-.
[[nodiscard]] std::string shell_word(std::string_view word);

/// "1.61 GB": base 1024, two decimals, units B KB MB GB TB PB, as upstream's `convert_bytes`.
[[nodiscard]] std::string format_bytes(double bytes);

/// Returns e.g. "12 s" or "350 ms".
[[nodiscard]] std::string format_duration(std::chrono::milliseconds duration);

}  // namespace accelerate
