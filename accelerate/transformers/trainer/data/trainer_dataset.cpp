#include "accelerate/transformers/trainer/data/trainer_dataset.h"

#include <set>

#include "accelerate/base/error.h"

namespace accelerate {

std::optional<std::size_t> TrainerDataset::size() const {
  if (rows_) return rows_->size();
  if (make_ == nullptr) return std::nullopt;
  try {
    return make_({}).total_dataset_length();
  } catch (const DataError&) {
    return std::nullopt;
  }
}

EvalDatasets::EvalDatasets(Named sets) : sets_(std::move(sets)) {
  std::set<std::string> names;
  for (const auto& [name, dataset] : sets_) {
    if (dataset.empty()) throw ConfigError("the evaluation set '" + name + "' has no dataset");
    if (!names.insert(name).second)
      throw ConfigError("two evaluation sets are called '" + name +
                        "': give each a name of its own");
  }
}

DataLoader<Inputs> TrainerDataset::loader(DataLoaderOptions options, DataCollator collator) const {
  if (rows_) return make_data_loader(*rows_, std::move(options), std::move(collator));
  if (stream_) return make_data_loader(*stream_, std::move(options), std::move(collator));
  if (make_ == nullptr) throw UsageError("a Trainer was given no dataset to make batches of");
  return make_(std::move(options));
}

}  // namespace accelerate
