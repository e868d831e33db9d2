#include "accelerate/watch/trackers/json_line.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace accelerate::detail {

nlohmann::ordered_json json_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

std::string json_line(const nlohmann::ordered_json& object) {
  constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
  return object.dump(-1, ' ', false, kReplace) + "\n";
}

}  // namespace accelerate::detail
