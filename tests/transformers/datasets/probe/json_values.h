// JSON values as rows, for the probes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/transformers/datasets/row.h"

namespace accelerate::probe {

using Json = nlohmann::ordered_json;

inline Value value_of(const Json& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_null()) return {};
  const auto all = [&](auto is) {
    return !json.empty() && std::all_of(json.begin(), json.end(), is);
  };
  if (all([](const Json& entry) { return entry.is_number_integer(); }))
    return json.get<std::vector<std::int64_t>>();
  if (all([](const Json& entry) { return entry.is_number_float(); }))
    return json.get<std::vector<double>>();
  Value::List list;
  for (const Json& entry : json) list.push_back(value_of(entry));
  return list;
}

inline std::vector<Row> rows_of(const Json& json) {
  std::vector<Row> rows;
  for (const Json& one : json) {
    Row row;
    for (const auto& [name, value] : one.items()) row.set(name, value_of(value));
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace accelerate::probe
