// JSON of the small files beside tokenizer.json.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace accelerate::detail {

/// Parses the JSON object `text`. Messages name the file as `file` and the expected content as
/// `allowed`. Throws ConfigError if `text` is not a JSON object, or nests beyond 64 levels: copying
/// a value takes stack for each level.
[[nodiscard]] nlohmann::json parse_object(std::string_view text, const std::string& file,
                                          const std::string& allowed);

}  // namespace accelerate::detail
