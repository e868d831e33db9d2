#include "accelerate/transformers/tokenizers/pretrained/json_text.h"

#include "accelerate/base/error.h"

namespace accelerate::detail {

using Json = nlohmann::json;

Json parse_object(std::string_view text, const std::string& file, const std::string& allowed) {
  constexpr int kDepth = 64;
  const auto check_depth = [&](int depth, Json::parse_event_t, const Json&) {
    if (depth > kDepth) throw ConfigError(file + ": nests deeper than 64 levels");
    return true;
  };
  Json values = Json::parse(text, check_depth, /*allow_exceptions=*/false);
  if (!values.is_object()) throw ConfigError(file + ": is no JSON object; allowed is " + allowed);
  return values;
}

}  // namespace accelerate::detail
