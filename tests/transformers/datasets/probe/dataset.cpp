// Does to datasets what tests/reference/datasets_live.py asks for.
//
// usage: dataset_probe
//
// Reads one JSON value a line: {"load": FORMAT, "files": …, options…} or {"rows": [...]} begin a
// dataset; then {"do": [[NAME, ARGUMENTS…], …]} changes it for this answer, and "parquet": FILE
// beside "do" writes what comes out. Prints a list of rows a split, or {"error": "KIND: …"}.
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "accelerate/base/error.h"
#include "accelerate/transformers/datasets/load_dataset.h"
#include "tests/transformers/datasets/probe/json_values.h"

namespace {

using namespace accelerate;
using probe::Json;

Json json_of(const Value& value) {
  return value.visit([&]<typename T>(const T& data) -> Json {
    if constexpr (std::is_same_v<T, std::monostate>) {
      return nullptr;
    } else if constexpr (std::is_same_v<T, Value::List>) {
      Json list = Json::array();
      for (const Value& entry : data) list.push_back(json_of(entry));
      return list;
    } else {
      return data;
    }
  });
}

Json json_of(const Row& row) {
  Json json = Json::object();
  for (const auto& [name, value] : row) json[name] = json_of(value);
  return json;
}

template <typename Rows>
Json json_of_rows(const Rows& rows) {
  Json list = Json::array();
  for (const Row& row : rows) list.push_back(json_of(row));
  return list;
}

Dataset done(const Dataset& dataset, const Json& step) {
  const std::string name = step[0];
  if (name == "shuffle") return dataset.shuffle({.seed = step[1]});
  if (name == "select") return dataset.select(step[1].get<std::vector<std::uint64_t>>());
  if (name == "sort") return dataset.sort(step[1].get<std::string>(), {.reverse = step[2]});
  if (name == "class_encode") return dataset.class_encode_column(step[1].get<std::string>());
  if (name == "rename")
    return dataset.rename_column(step[1].get<std::string>(), step[2].get<std::string>());
  if (name == "remove") return dataset.remove_columns({step[1].get<std::string>()});
  if (name == "shard") return dataset.shard(step[1], step[2], step[3]);
  if (name == "twice") return concatenate_datasets({dataset, dataset});
  TrainTestSplitOptions options{.shuffle = step[1].value("shuffle", true),
                                .seed = step[1].value("seed", std::uint64_t{0})};
  if (step[1].contains("test_size")) options.test_size = step[1]["test_size"].get<double>();
  if (step[1].contains("train_size")) options.train_size = step[1]["train_size"].get<double>();
  options.stratify_by_column = step[1].value("stratify_by_column", "");
  const auto parts = dataset.train_test_split(options);
  return concatenate_datasets({parts["train"], parts["test"]});
}

LoadDatasetOptions options_of(const Json& request) {
  LoadDatasetOptions options;
  options.data_files = request["files"].get<std::vector<std::string>>();
  options.cache_dir = request["cache"].get<std::string>();
  options.json.field = request.value("field", "");
  options.csv.delimiter = request.value("delimiter", ",")[0];
  return options;
}

Json answer(std::optional<Dataset>& dataset, const Json& request) {
  if (request.contains("load")) {
    dataset = load_dataset(request["load"].get<std::string>(), options_of(request)).only();
    return json_of_rows(*dataset);
  }
  if (request.contains("stream")) {
    IterableDataset rows =
        stream_dataset(request["stream"].get<std::string>(), options_of(request)).only();
    if (request.contains("buffer_size"))
      rows = rows.shuffle(request["seed"], request["buffer_size"]);
    Json passes = Json::array();
    for (int epoch = 0; epoch < request.value("passes", 1); ++epoch) {
      rows.set_epoch(epoch);
      passes.push_back(json_of_rows(rows));
    }
    return passes;
  }
  if (request.contains("rows")) {
    dataset = Dataset::from_rows(probe::rows_of(request["rows"]));
    return json_of_rows(*dataset);
  }
  Dataset changed = *dataset;
  for (const Json& step : request["do"]) changed = done(changed, step);
  if (request.contains("parquet")) changed.to_parquet(request["parquet"].get<std::string>());
  return json_of_rows(changed);
}

}  // namespace

int main() {
  std::optional<Dataset> dataset;
  for (std::string line; std::getline(std::cin, line);) {
    try {
      std::cout << answer(dataset, Json::parse(line)).dump() << std::endl;
    } catch (const Error& error) {
      std::cout << Json{{"error", std::string(error.kind()) + ": " + describe(error)}}.dump()
                << std::endl;
    }
  }
}
