// JSON as Python's json.dump writes it: with NaN, Infinity and -Infinity in the place of numbers.
#pragma once

#include <string>
#include <string_view>

namespace accelerate::detail {

/// Returns `text` with quotes around NaN, Infinity and -Infinity where they stand for numbers, so that
/// read_json() takes it. Cost: one pass.
[[nodiscard]] std::string with_quoted_infinities(std::string_view text);

}  // namespace accelerate::detail
