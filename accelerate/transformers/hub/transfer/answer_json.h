// Looks into the JSON of answers, which may have any value anywhere. Its objects find keys quickly:
// a hostile answer may have millions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace accelerate::detail {

/// Returns null if there is no such member.
[[nodiscard]] inline nlohmann::json member(const nlohmann::json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() ? *found : nlohmann::json();
}

/// Returns "" if there is no such member, or it is no text.
[[nodiscard]] inline std::string text_in(const nlohmann::json& object, const char* key) {
  const nlohmann::json text = member(object, key);
  return text.is_string() ? text.get<std::string>() : "";
}

}  // namespace accelerate::detail
