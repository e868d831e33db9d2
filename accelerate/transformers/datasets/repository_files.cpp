#include "accelerate/transformers/datasets/repository_files.h"

#include <algorithm>
#include <optional>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/base/untrusted_text.h"
#include "accelerate/transformers/datasets/names.h"
#include "accelerate/transformers/datasets/repository/card.h"
#include "accelerate/transformers/datasets/repository/chosen_files.h"
#include "accelerate/transformers/datasets/repository/formats.h"
#include "accelerate/transformers/datasets/repository/glob.h"
#include "accelerate/transformers/datasets/repository/listing.h"

namespace accelerate {
namespace {

// Limits for what a card can make this library hold and compute.
constexpr std::size_t kMostFiles = 1'000'000;
constexpr std::size_t kMostGlobs = 1'000;

enum class Keep { all, data_files };

// The order of the steps, and the input of each step, follow HubDatasetModuleFactory.get_module().
class Repository {
 public:
  Repository(const std::vector<std::string>& files, std::string_view card,
             const RepositoryOptions& options)
      : options_(options),
        base_(detail::join_folders("", options.data_dir)),
        files_(files),
        configs_(detail::read_card(card, options.standalone_yaml)),
        files_for_format_(resolve(base_, patterns_for_format(), Keep::data_files)),
        format_(detail::common_format(files_for_format_)) {
    for (const auto& config : configs_) patterns_.push_back(patterns_of(config));
    for (auto& [split, paths] : files_for_format_) {
      std::erase_if(paths, [&](const std::string& path) {
        return !detail::is_of_format(path, format_.name);
      });
    }
    check_one_default();
  }

  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& config : configs_) names.push_back(config.name);
    return names.empty() ? std::vector<std::string>{"default"} : names;
  }

  [[nodiscard]] RepositoryFiles choose() const {
    const detail::CardConfig* config = chosen();
    RepositoryFiles result{.config = config == nullptr ? "default" : config->name,
                           .format = format_.name,
                           .delimiter = format_.delimiter,
                           .json_field = "",
                           .splits = files_of(config)};
    detail::check_readable(result.splits, result.format);
    if (config != nullptr) detail::apply_values(*config, result);
    return result;
  }

 private:
  // Returns the patterns of the files that tell the format. They are those of the first
  // configuration, even if another one is chosen.
  RepositorySplits patterns_for_format() const {
    if (!options_.data_files.empty()) return options_.data_files;
    if (configs_.empty() || !base_.empty() || !configs_.front().names_data_files)
      return detail::default_patterns(files_, base_);
    if (!configs_.front().data_files)
      throw ConfigError("the dataset card: the first configuration has an empty `data_files`");
    return *configs_.front().data_files;
  }

  std::string folder_of(const detail::CardConfig& config) const {
    return detail::join_folders(base_, config.data_dir);
  }

  RepositorySplits patterns_of(const detail::CardConfig& config) const {
    if (config.data_files) return *config.data_files;
    try {
      return detail::default_patterns(files_, folder_of(config));
    } catch (const DataError&) {
      throw_with_context<DataError>("the configuration '" + config.name +
                                    "' of the dataset card has no files");
    }
  }

  RepositorySplits resolve(const std::string& base, const RepositorySplits& patterns,
                           Keep keep) const {
    RepositorySplits splits;
    std::size_t files = 0, globs = 0;
    for (const auto& [split, patterns_of_split] : patterns) {
      std::vector<std::string> found;
      for (const std::string& pattern : patterns_of_split) {
        if (detail::has_magic(pattern) && ++globs > kMostGlobs)
          throw ConfigError("a configuration has more than " + count_of(kMostGlobs, "pattern"));
        for (std::string& path : resolve(base, pattern, keep)) found.push_back(std::move(path));
        if (files + found.size() > kMostFiles)
          throw ConfigError("a configuration has more than " + count_of(kMostFiles, "file"));
      }
      files += found.size();
      splits.emplace_back(split, std::move(found));
    }
    return splits;
  }

  std::vector<std::string> resolve(const std::string& base, const std::string& pattern,
                                   Keep keep) const {
    auto found = files_.matches(base, pattern);
    if (keep == Keep::data_files)
      std::erase_if(found, [](const auto& path) { return !detail::has_data_extension(path); });
    if (found.empty() && !detail::has_magic(pattern)) {
      throw DataError("the repository has no data file '" +
                      detail::untrusted_line((base.empty() ? "" : base + "/") + pattern) + "'");
    }
    return found;
  }

  bool is_default(const detail::CardConfig& config) const {
    return configs_.size() == 1 || config.name == "default" || config.is_default;
  }

  void check_one_default() const {
    const detail::CardConfig* first = nullptr;
    for (const auto& config : configs_) {
      if (!is_default(config)) continue;
      if (first != nullptr) {
        throw ConfigError("the dataset card has two default configurations, '" +
                          detail::untrusted_line(first->name) + "' and '" +
                          detail::untrusted_line(config.name) + "'; one is allowed");
      }
      first = &config;
    }
  }

  // Returns nullptr if the card has no configurations, or if the caller names files or a folder
  // instead.
  const detail::CardConfig* chosen() const {
    const auto found = std::find_if(configs_.begin(), configs_.end(), [&](const auto& config) {
      return options_.config.empty() ? is_default(config) : config.name == options_.config;
    });
    if (found != configs_.end()) return &*found;
    if (configs_.empty() && (options_.config.empty() || options_.config == "default"))
      return nullptr;
    if (!options_.config.empty())
      throw ConfigError(
          detail::untrusted_line(detail::no_such("configuration", options_.config, names())));
    if (!base_.empty() || !options_.data_files.empty()) return nullptr;
    throw ConfigError("the dataset has several configurations; name one of: " +
                      detail::untrusted_line(join(names(), ", ")));
  }

  RepositorySplits files_of(const detail::CardConfig* config) const {
    if (!base_.empty()) return files_for_format_;
    if (!options_.data_files.empty()) return resolve("", options_.data_files, Keep::all);
    if (config == nullptr) return files_for_format_;
    const auto place = static_cast<std::size_t>(config - configs_.data());
    return resolve(folder_of(*config), patterns_[place], Keep::data_files);
  }

  const RepositoryOptions& options_;
  std::string base_;
  detail::ListedFiles files_;
  std::vector<detail::CardConfig> configs_;
  RepositorySplits files_for_format_;
  detail::FileFormat format_;
  std::vector<RepositorySplits> patterns_;  // Patterns of each configuration.
};

}  // namespace

RepositoryFiles choose_files(const std::vector<std::string>& files, std::string_view card,
                             const RepositoryOptions& options) {
  return Repository(files, card, options).choose();
}

std::vector<std::string> config_names(const std::vector<std::string>& files,
                                      std::string_view card) {
  const RepositoryOptions options;
  return Repository(files, card, options).names();
}

}  // namespace accelerate
