#include "accelerate/formats/shards/fsdp_files.h"

#include <algorithm>
#include <map>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/formats/weights/weight_index.h"

namespace accelerate {
namespace {

using Path = std::filesystem::path;

// Returns R of "<prefix>R.bin".
std::optional<long> rank_in(std::string_view name, std::string_view prefix) {
  constexpr std::string_view kExtension = ".bin";
  if (!name.starts_with(prefix) || !name.ends_with(kExtension)) return std::nullopt;
  name.remove_prefix(prefix.size());
  if (name.size() <= kExtension.size()) return std::nullopt;
  name.remove_suffix(kExtension.size());
  if (!detail::all_digits(name) || name.size() > 6) return std::nullopt;
  return std::stol(std::string(name));
}

std::vector<Path> rank_files_in(const Path& folder, const std::vector<std::string>& names,
                                const std::string& prefix) {
  std::map<long, Path> ranks;
  for (const auto& name : names)
    if (const auto rank = rank_in(name, prefix)) ranks.emplace(*rank, folder / name);
  std::vector<Path> paths;
  for (const auto& [rank, path] : ranks) {
    if (rank != static_cast<long>(paths.size()))
      throw CheckpointError("'" + (folder / prefix).string() + std::to_string(paths.size()) +
                            ".bin' is missing, and '" + path.string() +
                            "' is there: every rank's file is needed");
    paths.push_back(path);
  }
  return paths;
}

}  // namespace

std::optional<FsdpFiles> fsdp_files_in(const Path& folder, std::string_view kind, int number,
                                       FileSystem& files) {
  using Form = FsdpFiles::Form;
  const std::string plain(kind), numbered = plain + "_" + std::to_string(number);
  const auto names = files.list(folder);
  std::vector<FsdpFiles> found;
  if (is_distcp(folder / numbered, files)) found.push_back({Form::distcp, {folder / numbered}});
  if (auto ranks = rank_files_in(folder, names, numbered + "_rank"); !ranks.empty())
    found.push_back({Form::rank_files, std::move(ranks)});
  if (number == 0) {
    if (auto ranks = rank_files_in(folder, names, plain + "_rank"); !ranks.empty())
      found.push_back({Form::rank_files, std::move(ranks)});
  }
  const std::string full = (number == 0 ? plain : numbered) + ".bin";
  if (kind == kFsdpModel && std::ranges::find(names, full) != names.end())
    found.push_back({Form::full, {folder / full}});
  if (found.empty()) return std::nullopt;
  if (found.size() > 1)
    throw CheckpointError("there are both '" + found[0].paths[0].string() + "' and '" +
                          found[1].paths[0].string() +
                          "': which of them is to be read? Move the others away");
  return found.front();
}

ShardedState open_fsdp_files(const FsdpFiles& found, FileSystem& files,
                             detail::FlatParameters* flat) {
  if (found.form == FsdpFiles::Form::distcp) return open_distcp(found.paths.front(), files);
  return open_rank_files(found.paths, files, flat);
}

ShardCatalogue open_fsdp_model(const FsdpFiles& found, FileSystem& files,
                               detail::FlatParameters* flat) {
  auto state = open_fsdp_files(found, files, flat);
  if (!state.values.empty()) {
    const auto& [name, saved] = *state.values.begin();
    throw CheckpointError("'" + name + "' in " + found.paths.front().string() + " is " +
                          saved.value.describe() +
                          ", not a tensor: are these the weights of a model? An optimizer has "
                          "such values");
  }
  return std::move(state.tensors);
}

}  // namespace accelerate
