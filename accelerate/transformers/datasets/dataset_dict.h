// Datasets by the name of their split.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accelerate/transformers/datasets/dataset.h"
#include "accelerate/transformers/datasets/splits.h"

namespace accelerate {

/// Datasets by split, in order: "train", "test", …
class DatasetDict : public detail::Splits<Dataset> {
 public:
  using detail::Splits<Dataset>::Splits;

  /// Calls the Dataset function of the same name for every split.
  template <typename Function>
  [[nodiscard]] DatasetDict map(const Function& function, const MapOptions& options = {}) const {
    return each([&](const Dataset& dataset) { return dataset.map(function, options); });
  }
  [[nodiscard]] DatasetDict filter(const std::function<bool(const Row&)>& keeps,
                                   std::size_t num_proc = 1) const;
  [[nodiscard]] DatasetDict shuffle(const ShuffleOptions& options = {}) const;
  [[nodiscard]] DatasetDict rename_column(std::string_view from, std::string_view to) const;
  [[nodiscard]] DatasetDict remove_columns(const std::vector<std::string>& names) const;
  [[nodiscard]] DatasetDict select_columns(const std::vector<std::string>& names) const;
  [[nodiscard]] DatasetDict class_encode_column(std::string_view name) const;
  void set_format(const std::vector<std::string>& columns = {}) &;
  /// Writes data/<split>-00000-of-0000N.parquet, of about 500 MB each, into a dataset repository of
  /// the hub, in one commit. Creates the repository if it does not exist. Replaces earlier files of
  /// these splits; other splits stay. A repository without README.md gets one that names the files.
  /// Python `datasets` and load_dataset() can read the repository. Throws UsageError for a split
  /// name that load_dataset() would refuse: allowed are letters, digits and '_', with single dots
  /// between them. Throws what to_parquet(), create_repo() and upload_folder() throw. Cost: a
  /// temporary folder with the files.
  CommitInfo push_to_hub(const std::string& repo_id, const PushToHubOptions& options = {}) const;

 private:
  [[nodiscard]] DatasetDict each(const std::function<Dataset(const Dataset&)>& function) const;
};

}  // namespace accelerate
