// Finds the number for which valid JSON cannot be read.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace accelerate::detail {

/// Says which number in `text` does not fit into 64 bits, and what to write instead: "'key' is …".
/// Returns nullopt if there is none, or if the JSON is not valid before it.
std::optional<std::string> too_large_number(std::string_view text);

/// Says that `number`, an integer below `key`, is too large.
std::string too_large_integer(std::string_view key, std::string_view number);

}  // namespace accelerate::detail
