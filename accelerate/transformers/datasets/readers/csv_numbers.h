// Numbers in fields of CSV.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace accelerate::detail {

/// Each reads the number that a field is, with spaces around it or a plus sign before it; nullopt
/// for any other text. A float that is too large or too small is infinity or zero.
[[nodiscard]] std::optional<std::int64_t> csv_integer(std::string_view text);
[[nodiscard]] std::optional<double> csv_float(std::string_view text);

}  // namespace accelerate::detail
