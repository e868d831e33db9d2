// Lines of JSON, which files of several trackers consist of.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace accelerate::detail {

/// Returns `value`; "NaN", "Infinity" or "-Infinity" for what JSON has no numbers for. Source: the
/// JSON form of Protocol Buffers.
[[nodiscard]] nlohmann::ordered_json json_number(double value);

/// Returns `object` in one line, with its line end. U+FFFD replaces what is not UTF-8.
[[nodiscard]] std::string json_line(const nlohmann::ordered_json& object);

}  // namespace accelerate::detail
