#include <cmath>
#include <nlohmann/json.hpp>

#include "accelerate/formats/documents/json.h"

namespace accelerate::detail {
namespace {

template <typename Json>
std::string text_of_json(const Json& value, int indent) {
  return value.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace

nlohmann::json parse_json(std::string_view text) {
  return nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
}

std::string json_text(const nlohmann::json& value) {
  return text_of_json(value, -1);
}

std::string json_text(const nlohmann::ordered_json& value, int indent) {
  return text_of_json(value, indent);
}

nlohmann::ordered_json json_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

std::string json_string(std::string_view text) {
  return json_text(nlohmann::json(text));
}

}  // namespace accelerate::detail
