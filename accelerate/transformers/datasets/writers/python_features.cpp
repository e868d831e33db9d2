#include "accelerate/transformers/datasets/writers/python_features.h"

#include <nlohmann/json.hpp>

#include "accelerate/base/text.h"

namespace accelerate::detail {
namespace {

// Quotes a text and escapes all characters that are not ASCII, as Python's json.dumps does.
std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', /*ensure_ascii=*/true);
}

std::string description_of(const Feature& feature) {
  if (feature.kind() == Feature::Kind::list)
    return R"({"feature": )" + description_of(feature.element()) + R"(, "_type": "List"})";
  if (!feature.is_class_label())
    return R"({"dtype": )" + quoted(feature.description()) + R"(, "_type": "Value"})";
  std::vector<std::string> names;
  for (const std::string& name : feature.names()) names.push_back(quoted(name));
  return R"({"names": [)" + join(names, ", ") + R"(], "_type": "ClassLabel"})";
}

}  // namespace

std::string metadata_of(const Features& features) {
  std::vector<std::string> columns;
  for (const auto& [name, feature] : features)
    columns.push_back(quoted(name) + ": " + description_of(feature));
  return R"({"info": {"features": {)" + join(columns, ", ") + "}}}";
}

}  // namespace accelerate::detail
