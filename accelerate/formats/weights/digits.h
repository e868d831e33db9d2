// Numbers in the names of files.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace accelerate::detail {

/// Returns "00012"; more digits if five are not enough.
[[nodiscard]] std::string five_digits(std::size_t number);

/// Whether `text` consists of digits; false for "".
[[nodiscard]] bool all_digits(std::string_view text);

}  // namespace accelerate::detail
