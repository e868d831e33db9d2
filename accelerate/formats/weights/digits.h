// Numbers in the names of files.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace accelerate::detail {

/// "00012"; more digits where five do not suffice.
[[nodiscard]] std::string five_digits(std::size_t number);

/// False for "".
[[nodiscard]] bool all_digits(std::string_view text);

}  // namespace accelerate::detail
