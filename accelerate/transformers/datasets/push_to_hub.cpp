#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>

#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/transformers/datasets/dataset_dict.h"
#include "accelerate/transformers/datasets/repository/chosen_files.h"
#include "accelerate/transformers/datasets/writers/parquet_writer.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kShardBytes = 500'000'000;
constexpr std::size_t kSampleRows = 10'000;

void check_split(const std::string& split) {
  if (detail::is_split_name(split)) return;
  throw UsageError("the split '" + split +
                   "' cannot be a file's name; allowed are letters, digits and '_', with single "
                   "dots between them");
}

// Estimates the number of files from the size of the first rows.
std::size_t shards_of(const Dataset& dataset, const fs::path& folder) {
  if (dataset.size() <= kSampleRows) return 1;
  const fs::path sample = folder / "sample.parquet";
  detail::write_parquet(dataset, 0, kSampleRows, sample);
  const std::uint64_t sample_bytes = real_file_system().status(sample).size_bytes;
  real_file_system().remove(sample);
  const double bytes =
      static_cast<double>(sample_bytes) * static_cast<double>(dataset.size()) / kSampleRows;
  return static_cast<std::size_t>(bytes / kShardBytes) + 1;
}

void write_split(const std::string& split, const Dataset& dataset, const fs::path& folder) {
  const std::size_t shards = shards_of(dataset, folder);
  for (std::size_t i = 0; i < shards; ++i) {
    const std::size_t first = dataset.size() * i / shards;
    const std::size_t rows = dataset.size() * (i + 1) / shards - first;
    std::array<char, 64> numbers{};
    std::snprintf(numbers.data(), numbers.size(), "-%05zu-of-%05zu.parquet", i, shards);
    detail::write_parquet(dataset, first, rows, folder / (split + numbers.data()));
  }
}

std::string card_of(const DatasetDict& splits) {
  std::string card = "---\nconfigs:\n- config_name: default\n  data_files:\n";
  for (const std::string& split : splits.keys())
    card += "  - split: '" + split + "'\n    path: data/" + split + "-*\n";
  return card + "---\n";
}

}  // namespace

CommitInfo DatasetDict::push_to_hub(const std::string& repo_id,
                                    const PushToHubOptions& options) const {
  if (size() == 0) throw UsageError("there is no split to push");
  detail::Push push{.what = "dataset", .write = {}, .card = card_of(*this), .replaces = {}};
  for (const std::string& split : keys()) {
    check_split(split);
    push.replaces.push_back("data/" + split + "-[0-9][0-9][0-9][0-9][0-9]-of-*");
  }
  push.write = [&](const fs::path& folder) {
    real_file_system().create_directories(folder / "data");
    for (const auto& [split, dataset] : *this) write_split(split, dataset, folder / "data");
  };
  PushToHubOptions dataset = options;
  dataset.hub.type = RepoType::dataset;
  return detail::push(repo_id, push, dataset);
}

CommitInfo Dataset::push_to_hub(const std::string& repo_id, const PushToHubOptions& options,
                                const std::string& split) const {
  DatasetDict splits;
  splits.set(split, *this);
  return splits.push_to_hub(repo_id, options);
}

}  // namespace accelerate
