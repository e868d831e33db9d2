// JSON of the small files beside tokenizer.json.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace accelerate::detail {

/// Parses the JSON object `text`; `file` stands for it in messages, `allowed` for what it should
/// be. Throws ConfigError for anything else, and for nesting beyond 64 levels: to copy a value
/// takes stack for each level.
[[nodiscard]] nlohmann::json parse_object(std::string_view text, const std::string& file,
                                          const std::string& allowed);

}  // namespace accelerate::detail
