// Environment variables, parsed as upstream parses them. Their values are untrusted: a value that
// does not parse throws ConfigError, which names the variable, the value and what is allowed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace accelerate {

/// y yes t true on 1 → true; n no f false off 0 → false, any case; nullopt otherwise.
/// Source: `str_to_bool` of Hugging Face Accelerate.
[[nodiscard]] std::optional<bool> parse_bool(std::string_view text);

/// The variable's value; nullopt when unset or empty.
[[nodiscard]] std::optional<std::string> env(const char* name);

/// The first of `names` that is set and not empty.
[[nodiscard]] std::optional<std::string> env_first(const std::vector<const char*>& names);

/// A boolean variable, `fallback` when unset. Throws ConfigError when it is not a boolean.
[[nodiscard]] bool env_flag(const char* name, bool fallback);

/// An integer variable, nullopt when unset. Throws ConfigError when it is not an integer.
[[nodiscard]] std::optional<std::int64_t> env_int(const char* name);

/// Returns env_int() of the first of `names` that is set and not empty.
[[nodiscard]] std::optional<std::int64_t> env_int_first(const std::vector<const char*>& names);

}  // namespace accelerate
