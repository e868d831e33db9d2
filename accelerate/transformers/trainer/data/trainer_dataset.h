// What a Trainer takes its rows from: a Dataset, an IterableDataset, or any dataset from which
// make_data_loader() makes a loader of Inputs.
#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "accelerate/transformers/datasets/dataset_loader.h"

namespace accelerate {

class TrainerDataset {
 public:
  TrainerDataset() = default;
  // NOLINTBEGIN(google-explicit-constructor): `.train_dataset = dataset["train"]` is the point.
  TrainerDataset(Dataset dataset) : rows_(std::move(dataset)) {}
  TrainerDataset(IterableDataset dataset) : stream_(std::move(dataset)) {}
  template <typename D>
    requires(!std::is_base_of_v<TrainerDataset, D> &&
             requires(D dataset) {
               {
                 make_data_loader(dataset, DataLoaderOptions())
               } -> std::same_as<DataLoader<Inputs>>;
             })
  TrainerDataset(D dataset)
      : make_([dataset](DataLoaderOptions options) {
          return make_data_loader(dataset, std::move(options));
        }) {}
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] bool empty() const { return !rows_ && !stream_ && make_ == nullptr; }
  /// The rows, if this is a Dataset; else null.
  [[nodiscard]] const Dataset* rows() const { return rows_ ? &*rows_ : nullptr; }
  [[nodiscard]] const IterableDataset* stream() const { return stream_ ? &*stream_ : nullptr; }
  /// The number of samples; nullopt if it is not known before they are read.
  [[nodiscard]] std::optional<std::size_t> size() const;
  /// Returns a loader of batches as `options` say. `collator` makes batches of rows.
  [[nodiscard]] DataLoader<Inputs> loader(DataLoaderOptions options, DataCollator collator) const;

 private:
  std::optional<Dataset> rows_;
  std::optional<IterableDataset> stream_;
  std::function<DataLoader<Inputs>(DataLoaderOptions)> make_;
};

/// One dataset, or several by name. The metrics of a set "dev" are called eval_dev_loss and so on.
class EvalDatasets {
 public:
  using Named = std::vector<std::pair<std::string, TrainerDataset>>;

  EvalDatasets() = default;
  // NOLINTBEGIN(google-explicit-constructor)
  template <typename D>
    requires(std::convertible_to<D, TrainerDataset> && !std::is_base_of_v<EvalDatasets, D>)
  EvalDatasets(D dataset) : sets_{{std::string(), TrainerDataset(std::move(dataset))}} {}
  /// Throws ConfigError for two sets of the same name, and for a set without a dataset.
  EvalDatasets(Named sets);
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] bool empty() const { return sets_.empty() || sets_.front().second.empty(); }
  /// A dataset without a name is called "".
  [[nodiscard]] const Named& sets() const { return sets_; }

 private:
  Named sets_;
};

}  // namespace accelerate
