#include "accelerate/transformers/datasets/dataset_dict.h"

#include <algorithm>

namespace accelerate {
DatasetDict DatasetDict::each(const std::function<Dataset(const Dataset&)>& function) const {
  DatasetDict result;
  for (const auto& [name, dataset] : splits_) result.splits_.emplace_back(name, function(dataset));
  return result;
}

DatasetDict DatasetDict::filter(const std::function<bool(const Row&)>& keeps,
                                std::size_t num_proc) const {
  return each([&](const Dataset& dataset) { return dataset.filter(keeps, num_proc); });
}

DatasetDict DatasetDict::shuffle(const ShuffleOptions& options) const {
  return each([&](const Dataset& dataset) { return dataset.shuffle(options); });
}

DatasetDict DatasetDict::rename_column(std::string_view from, std::string_view to) const {
  return each([&](const Dataset& dataset) { return dataset.rename_column(from, to); });
}

DatasetDict DatasetDict::remove_columns(const std::vector<std::string>& names) const {
  return each([&](const Dataset& dataset) { return dataset.remove_columns(names); });
}

DatasetDict DatasetDict::select_columns(const std::vector<std::string>& names) const {
  return each([&](const Dataset& dataset) { return dataset.select_columns(names); });
}

DatasetDict DatasetDict::class_encode_column(std::string_view name) const {
  return each([&](const Dataset& dataset) { return dataset.class_encode_column(name); });
}

void DatasetDict::set_format(const std::vector<std::string>& columns) & {
  for (auto& [name, dataset] : splits_) dataset.set_format(columns);
}

}  // namespace accelerate
