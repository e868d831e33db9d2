#include "accelerate/transformers/datasets/load_dataset.h"

#include <fnmatch.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/text.h"
#include "accelerate/base/untrusted_text.h"
#include "accelerate/data/ordered_prefetch.h"
#include "accelerate/transformers/datasets/repository_files.h"
#include "accelerate/transformers/datasets/storage/table_builder.h"
#include "accelerate/transformers/datasets/storage/table_file.h"
#include "accelerate/transformers/hub/cache/cache_files.h"
#include "accelerate/transformers/hub/download.h"
#include "accelerate/transformers/hub/repository.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;
using detail::files_below;
using detail::is_local;
using detail::pattern_of;

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
  throw UsageError("there is no split '" + split +
                   "'; the dataset has: " + detail::untrusted_line(join(names, ", ")) +
                   (has_brackets ? ". Take rows by slice() instead of brackets" : ""));
}

// Fetches the files that choose_files() chooses; if `split` is not empty, only the files of this
// split. The returned paths are files on the disk. Takes RepositoryOptions::standalone_yaml from
// the repository and ignores HubOptions::type. Throws UsageError for an unknown split. Throws what
// choose_files() and fetch_folder() throw.
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

using Files = std::vector<std::filesystem::path>;
using Open = std::unique_ptr<detail::ChunkReader> (*)(const std::filesystem::path&,
                                                      const detail::ReaderOptions&);

bool is_format(std::string_view name) {
  return name == "csv" || name == "json" || name == "text" || name == "parquet";
}

Open opener_of(std::string_view format) {
  if (format == "csv") return detail::read_csv;
  if (format == "json") return detail::read_json;
  if (format == "text") return detail::read_text;
  return detail::read_parquet;
}

// Returns the files that match a pattern, sorted by name.
Files matched(const std::string& pattern) {
  const std::filesystem::path path(pattern);
  if (pattern.find_first_of("*?") == std::string::npos) return {path};
  if (path.parent_path().string().find_first_of("*?") != std::string::npos) {
    throw UsageError("the pattern '" + pattern +
                     "' has a * or ? in the name of a folder; they are allowed only in file names");
  }
  const auto folder = path.parent_path().empty() ? std::filesystem::path(".") : path.parent_path();
  Files files;
  for (const std::string& name : real_file_system().list(folder)) {
    if (fnmatch(path.filename().c_str(), name.c_str(), FNM_PERIOD) == 0)
      files.push_back(folder / name);
  }
  if (files.empty()) throw FileError("find", path, "no file matches the pattern");
  return files;
}

using FilesBySplit = std::vector<std::pair<std::string, Files>>;

FilesBySplit splits_of(const LoadDatasetOptions& options) {
  if (options.data_files.splits().empty())
    throw UsageError("load_dataset was called without files; name them by {.data_files = …}");
  FilesBySplit splits;
  std::string names;
  for (const auto& [split, patterns] : options.data_files.splits()) {
    names += (names.empty() ? "" : ", ") + split;
    for (const auto& [before, unused] : splits) {
      if (before == split)
        throw UsageError(".data_files names the split '" + split +
                         "' twice. Name its files in one list");
    }
    if (!options.split.empty() && options.split != split) continue;
    Files files;
    for (const std::string& pattern : patterns) {
      for (auto& file : matched(pattern)) files.push_back(std::move(file));
    }
    if (files.empty()) throw UsageError("the split '" + split + "' has no files");
    splits.emplace_back(split, std::move(files));
  }
  if (splits.empty()) {
    throw UsageError("there is no split '" + options.split + "'; .data_files has: " + names +
                     (options.split.find('[') != std::string::npos
                          ? ". Take rows by slice() instead of brackets"
                          : ""));
  }
  return splits;
}

// Returns path, size and time of change of each file. If they are equal, so is the content,
// presumably.
std::string state_of(const Files& files) {
  std::string state;
  for (const auto& file : files) {
    struct stat found{};
    if (stat(file.c_str(), &found) != 0) throw FileError("open", file, errno);
    state += std::filesystem::absolute(file).string() + "\n" + std::to_string(found.st_size) + " " +
             std::to_string(found.st_mtim.tv_sec) + "." + std::to_string(found.st_mtim.tv_nsec) +
             "\n";
  }
  return state;
}

std::string key_of(std::string_view format, const std::string& state,
                   const LoadDatasetOptions& options) {
  std::string settings{options.csv.delimiter, options.csv.quote,
                       options.csv.has_header ? '1' : '0'};
  settings += std::to_string(options.csv.skip_rows);
  for (const auto* list : {&options.csv.column_names, &options.csv.na_values}) {
    for (const std::string& text : *list) settings += "\n" + text;
    settings += "\n\n";
  }
  const std::string types = options.features ? detail::write_features(*options.features) : "";
  return detail::fingerprint_of({"load", format, state, settings, options.json.field, types});
}

detail::ReaderOptions reader_options(const LoadDatasetOptions& options) {
  return {.csv = options.csv, .json = options.json, .features = options.features};
}

// Passes the chunks of `reader` to `take`. A thread reads ahead, so that parsing and writing
// overlap.
template <typename Take>
void each_chunk(detail::ChunkReader& reader, const Take& take) {
  constexpr std::size_t kChunksAhead = 4;
  bool has_ended = false;
  const auto read = [&](std::size_t, std::size_t) -> std::optional<detail::Chunk> {
    if (has_ended) return std::nullopt;
    has_ended = true;  // Also when an exception leaves here.
    auto chunk = reader.next();
    has_ended = !chunk;
    return chunk;
  };
  detail::OrderedPrefetch<std::optional<detail::Chunk>> chunks(
      {.count = std::numeric_limits<std::size_t>::max(), .capacity = kChunksAhead}, read);
  while (const auto chunk = *chunks.next()) take(*chunk);
}

std::shared_ptr<const detail::Table> read_all(Open open, const Files& files,
                                              const LoadDatasetOptions& options,
                                              std::unique_ptr<detail::ChunkSink> sink) {
  detail::ReaderOptions settings = reader_options(options);
  std::optional<detail::TableBuilder> builder;
  for (const auto& file : files) {
    auto reader = open(file, settings);
    const bool is_empty = reader->features().empty();
    // A file without columns may be followed by a file that has columns.
    if (is_empty && &file != &files.back()) continue;
    if (!builder) {
      builder.emplace(reader->features(), std::move(sink));
      // Later files have the types of the first file.
      settings.features = reader->features();
    }
    each_chunk(*reader,
               [&](const detail::Chunk& chunk) { builder->append(chunk.columns, 0, chunk.rows); });
  }
  return builder->finish();
}

Dataset load(std::string_view format, const Files& files, const LoadDatasetOptions& options) {
  const std::string before = state_of(files);
  const auto check_unchanged = [&] {
    if (state_of(files) != before)
      throw DataError("'" + files.front().string() +
                      "' or a file beside it changed while it was read. Load it again");
  };
  if (options.keep_in_memory) {
    auto table = read_all(opener_of(format), files, options, detail::sink_in_memory());
    check_unchanged();
    return Dataset::of_table(std::move(table));
  }
  const std::string key = key_of(format, before, options);
  const auto folder = options.cache_dir.empty() ? datasets_cache_folder() : options.cache_dir;
  const auto file = folder / (std::string(format) + "-" + key + ".table");
  auto table = options.load_from_cache_file ? detail::open_cached_table(file) : nullptr;
  if (!table) {
    table = read_all(opener_of(format), files, options, detail::sink_in_file(file, key));
    try {
      check_unchanged();
    } catch (...) {
      real_file_system().remove(file);
      throw;
    }
  }
  return Dataset::of_table(std::move(table));
}

// Reads files row by row.
class Stream {
 public:
  Stream(Open open, Files files, detail::ReaderOptions options)
      : open_(open), files_(std::move(files)), options_(std::move(options)) {}

  std::optional<Row> operator()() {
    while (!chunk_ || next_ == chunk_->rows) {
      if (!advance()) return std::nullopt;
    }
    Row row;
    for (std::size_t i = 0; i < chunk_->columns.size(); ++i)
      row.add((*options_.features)[i].first, chunk_->columns[i].at(next_));
    ++next_;
    return row;
  }

 private:
  bool advance() {
    for (;;) {
      if (!reader_ && file_ == files_.size()) return false;
      if (!reader_) reader_ = open_(files_[file_++], options_);
      if (!options_.features) options_.features = reader_->features();
      chunk_ = reader_->next();
      next_ = 0;
      if (chunk_) return true;
      reader_.reset();
    }
  }

  Open open_;
  Files files_;
  detail::ReaderOptions options_;
  std::shared_ptr<detail::ChunkReader> reader_;
  std::optional<detail::Chunk> chunk_;
  std::size_t next_ = 0, file_ = 0;
};

// The files to read, and how to read them.
struct Source {
  std::string format;
  FilesBySplit splits;
  LoadDatasetOptions options;
};

Source source_of(std::string_view name, const LoadDatasetOptions& options) {
  if (is_format(name)) return {std::string(name), splits_of(options), options};
  auto found = fetch_dataset(std::string(name),
                             {.config = options.name,
                              .data_dir = options.data_dir,
                              .data_files = options.data_files.splits()},
                             options.split, options.hub);
  Source source{.format = found.format, .splits = {}, .options = options};
  if (options.csv.delimiter == CsvOptions().delimiter)
    source.options.csv.delimiter = found.delimiter;
  if (options.json.field.empty()) source.options.json.field = found.json_field;
  for (auto& [split, paths] : found.splits) {
    Files files(paths.begin(), paths.end());
    source.splits.emplace_back(split, std::move(files));
  }
  return source;
}

}  // namespace

DatasetDict load_dataset(std::string_view format, const LoadDatasetOptions& options) {
  const Source source = source_of(format, options);
  if (options.features) detail::check_features(*options.features);
  DatasetDict splits;
  for (const auto& [split, files] : source.splits)
    splits.set(split, load(source.format, files, source.options));
  return splits;
}

IterableDatasetDict stream_dataset(std::string_view format, const LoadDatasetOptions& options) {
  const Source source = source_of(format, options);
  const Open open = opener_of(source.format);
  if (options.features) detail::check_features(*options.features);
  std::vector<std::pair<std::string, IterableDataset>> splits;
  for (const auto& [split, files] : source.splits) {
    Features features;
    for (const auto& file : files) {
      features = open(file, reader_options(source.options))->features();
      if (!features.empty()) break;
    }
    auto settings = reader_options(source.options);
    settings.features = features;
    splits.emplace_back(
        split,
        IterableDataset([=](std::size_t) { return Stream(open, files, settings); }, features));
  }
  return IterableDatasetDict(std::move(splits));
}

}  // namespace accelerate
