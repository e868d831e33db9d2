#include "accelerate/transformers/models/loading/load_weights.h"

#include <algorithm>

#include "accelerate/formats/weights/weight_index.h"
#include "accelerate/transformers/hub/download.h"

namespace accelerate::detail {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kConfigurations = {"config.json", "generation_config.json"};

bool has(const RepositoryListing& listing, const std::string& file) {
  return std::ranges::binary_search(listing.files, file);
}

// Returns the file with the weights, or the index of several files; "" if there is neither.
std::string weights_in(const RepositoryListing& listing) {
  for (const char* name : {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
                           "pytorch_model.bin.index.json"}) {
    if (has(listing, name)) return name;
  }
  return "";
}

}  // namespace

fs::path fetch_model(const std::string& name_or_folder, const HubOptions& options,
                     const std::string& gguf_file) {
  std::error_code no_folder;
  if (fs::is_directory(name_or_folder, no_folder)) return fetch_folder(name_or_folder, options);
  const RepositoryListing listing = list_repo_files(name_or_folder, options);
  const std::string weights = gguf_file.empty() ? weights_in(listing) : gguf_file;
  HubOptions at_commit = options;  // The branch may move on between two requests.
  at_commit.revision = listing.commit;
  FilePatterns files{.allow = kConfigurations};
  if (!weights.empty()) files.allow.push_back(pattern_of(weights));
  const fs::path folder = fetch_folder(name_or_folder, at_commit, files);
  if (!weights.ends_with(".index.json") || !fs::exists(folder / weights)) return folder;
  return fetch_folder(name_or_folder, at_commit,
                      {.allow = read_weight_index(folder / weights).file_names()});
}

}  // namespace accelerate::detail
