// Writes model cards for tests/transformers/hub/model_card_live.py. Each line of standard input is a JSON object
// with the fields of ModelCard. Each line of standard output is {"value": the README}, or
// {"error": its type, "message": …}.
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "accelerate/base/error.h"
#include "accelerate/transformers/hub/model_card.h"

namespace accelerate {
namespace {

using Json = nlohmann::json;
using Texts = std::vector<std::string>;

// A number, a text, or {"real": "nan"} for what JSON cannot hold.
std::variant<double, std::int64_t, std::string> value_of(const Json& value) {
  if (value.is_object()) return std::stod(value.at("real").get<std::string>());
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value.is_number()) return value.get<double>();
  return value.get<std::string>();
}

EvalResult result_of(const Json& fields) {
  EvalResult result;
  result.task_type = fields.value("task_type", "");
  result.task_name = fields.value("task_name", "");
  result.dataset_type = fields.value("dataset_type", "");
  result.dataset_name = fields.value("dataset_name", "");
  result.dataset_config = fields.value("dataset_config", "");
  result.dataset_split = fields.value("dataset_split", "");
  result.dataset_revision = fields.value("dataset_revision", "");
  result.metric_type = fields.value("metric_type", "");
  result.metric_name = fields.value("metric_name", "");
  result.metric_value = value_of(fields.at("metric_value"));
  return result;
}

ModelCard card_of(const Json& fields) {
  ModelCard card;
  card.license = fields.value("license", "");
  card.license_name = fields.value("license_name", "");
  card.license_link = fields.value("license_link", "");
  card.languages = fields.value("languages", Texts());
  card.base_models = fields.value("base_models", Texts());
  card.datasets = fields.value("datasets", Texts());
  card.metrics = fields.value("metrics", Texts());
  card.tags = fields.value("tags", Texts());
  card.library_name = fields.value("library_name", "");
  card.pipeline_tag = fields.value("pipeline_tag", "");
  card.model_name = fields.value("model_name", "");
  for (const Json& result : fields.value("eval_results", Json::array())) {
    card.eval_results.push_back(result_of(result));
  }
  card.text = fields.value("text", "");
  return card;
}

Json answer(const Json& fields) {
  try {
    return {{"value", write_model_card(card_of(fields))}};
  } catch (const Error& error) {
    return {{"error", error.kind()}, {"message", error.what()}};
  }
}

}  // namespace
}  // namespace accelerate

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << accelerate::answer(nlohmann::json::parse(line)).dump() << std::endl;
  }
}
