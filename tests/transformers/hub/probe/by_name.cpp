// Opens a model, a tokenizer and a dataset by their names on the hub, says what they hold, and
// pushes them elsewhere, for tests/transformers/hub/by_name_live.py.
//
// usage: by_name_probe MODEL DATASET TEXT PUSHED
//
// Standard output is a line of JSON: "ids" and "logits" of TEXT, "splits": rows of each split.
// PUSHED-model and PUSHED-data are the repositories that are made.
#include <ATen/ops/tensor.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "accelerate/transformers.h"

namespace accelerate {
namespace {

using Json = nlohmann::json;

Json rows_of(const Dataset& dataset) {
  Json rows = Json::array();
  for (std::size_t i = 0; i < dataset.size(); ++i) {
    const Row row = dataset[i];
    rows.push_back({row["text"].text(), row["label"].integer()});
  }
  return rows;
}

Json opened(char** words) {
  const auto model = AutoModelForSequenceClassification::from_pretrained(words[1]);
  const auto tokenizer = AutoTokenizer::from_pretrained(words[1]);
  const auto dataset = load_dataset(words[2], {});
  const auto ids = tokenizer.encode(words[3]);
  const at::Tensor input = at::tensor(ids).unsqueeze(0);
  const at::Tensor logits = model->forward(Inputs({{"input_ids", input}})).logits;
  Json found = {{"ids", ids}, {"logits", Json::array()}, {"splits", Json::object()}};
  for (std::int64_t i = 0; i < logits.size(1); ++i)
    found["logits"].push_back(logits[0][i].item<double>());
  for (const auto& [split, rows] : dataset) found["splits"][split] = rows_of(rows);
  const std::string pushed = words[4];
  model->push_to_hub(pushed + "-model");
  tokenizer.push_to_hub(pushed + "-model");
  dataset.push_to_hub(pushed + "-data");
  return found;
}

}  // namespace
}  // namespace accelerate

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  try {
    std::cout << accelerate::opened(argv).dump() << std::endl;
    return 0;
  } catch (const std::exception& error) {
    std::cerr << accelerate::describe(error) << "\n";
    return 1;
  }
}
