#include "accelerate/transformers/datasets/fetch_dataset.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/text.h"
#include "accelerate/base/untrusted_text.h"
#include "accelerate/transformers/hub/cache/cache_files.h"
#include "accelerate/transformers/hub/download.h"

namespace accelerate::detail {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostOfCard = 16U << 20;
constexpr const char* kCard = "README.md";
constexpr const char* kStandaloneYaml = ".huggingface.yaml";

// A dataset repository: a local folder, or a folder of the cache into which files are fetched.
class DatasetRepository {
 public:
  DatasetRepository(std::string name, HubOptions hub)
      : name_(std::move(name)), hub_(std::move(hub)) {
    hub_.type = RepoType::dataset;
    if (is_local(name_)) {
      files_ = files_below(name_);
      return;
    }
    RepositoryListing listing = list_repo_files(name_, hub_);
    files_ = std::move(listing.files);
    hub_.revision = listing.commit;  // Pins the commit, because the branch may move on.
  }

  [[nodiscard]] const std::vector<std::string>& files() const { return files_; }

  [[nodiscard]] std::string text_of(const std::string& file) const {
    if (!std::ranges::binary_search(files_, file)) return "";
    return real_file_system().read(folder_with({file}) / file, kMostOfCard);
  }

  [[nodiscard]] fs::path folder_with(const std::vector<std::string>& files) const {
    return fetch_folder(name_, hub_, {.allow = files_by_name(files)});
  }

 private:
  // Returns patterns that match only these files.
  static std::vector<std::string> files_by_name(const std::vector<std::string>& files) {
    std::vector<std::string> patterns;
    for (const std::string& file : files) patterns.push_back(pattern_of(file));
    return patterns;
  }

  std::string name_;
  HubOptions hub_;
  std::vector<std::string> files_;
};

void keep_split(RepositorySplits& splits, const std::string& split) {
  if (split.empty()) return;
  std::vector<std::string> names;
  for (const auto& [name, unused] : splits) names.push_back(name);
  std::erase_if(splits, [&](const auto& entry) { return entry.first != split; });
  if (!splits.empty()) return;
  const bool has_brackets = split.find('[') != std::string::npos;
  throw UsageError("the split '" + split + "' was asked for; the dataset has: " +
                   detail::untrusted_line(join(names, ", ")) +
                   (has_brackets ? ". Take rows by slice() instead of brackets" : ""));
}

}  // namespace

RepositoryFiles fetch_dataset(const std::string& name_or_folder, RepositoryOptions options,
                              const std::string& split, const HubOptions& hub) {
  const DatasetRepository repository(name_or_folder, hub);
  const std::string yaml = repository.text_of(kStandaloneYaml);
  options.standalone_yaml = yaml;
  RepositoryFiles chosen = choose_files(repository.files(), repository.text_of(kCard), options);
  keep_split(chosen.splits, split);
  std::vector<std::string> wanted;
  for (const auto& [unused, files] : chosen.splits)
    wanted.insert(wanted.end(), files.begin(), files.end());
  const fs::path folder = repository.folder_with(wanted);
  for (auto& [unused, files] : chosen.splits) {
    for (std::string& file : files) file = (folder / file).string();
  }
  return chosen;
}

}  // namespace accelerate::detail
