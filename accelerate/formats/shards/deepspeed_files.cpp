#include "accelerate/formats/shards/deepspeed_files.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string_view>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"

namespace accelerate {
namespace {

using Path = std::filesystem::path;

constexpr std::string_view kModel = "_model_states.pt";
constexpr std::string_view kOptimizer = "_optim_states.pt";

// "bf16_zero_pp_rank_3_mp_rank_00_optim_states.pt": rank 3 of the data, 0 of the model.
struct FileOfRank {
  std::string prefix;  // "zero_pp", "bf16_zero_pp"; "" for the file of a whole model.
  std::size_t rank = 0, model_rank = 0;
  bool optimizer = false;
};

std::optional<std::size_t> take_number(std::string_view& text) {
  const auto digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto number = parse_int(text.substr(0, digits));
  text.remove_prefix(digits);
  if (!number || *number < 0 || *number > 1'000'000) return std::nullopt;
  return static_cast<std::size_t>(*number);
}

std::optional<FileOfRank> parse(std::string_view name) {
  FileOfRank file;
  for (const std::string_view prefix : {"bf16_zero_pp", "fp16_zero_pp", "zero_pp"}) {
    if (!name.starts_with(prefix)) continue;
    file.prefix = prefix;
    name.remove_prefix(prefix.size());
    if (!name.starts_with("_rank_")) return std::nullopt;
    name.remove_prefix(std::string_view("_rank_").size());
    const auto rank = take_number(name);
    if (!rank || !name.starts_with('_')) return std::nullopt;
    file.rank = *rank;
    name.remove_prefix(1);
    break;
  }
  if (!name.starts_with("mp_rank_")) return std::nullopt;
  name.remove_prefix(std::string_view("mp_rank_").size());
  const auto model_rank = take_number(name);
  if (!model_rank || (name != kModel && name != kOptimizer)) return std::nullopt;
  file.model_rank = *model_rank;
  file.optimizer = name == kOptimizer;
  return file;
}

bool is_folder(FileSystem& files, const Path& path) {
  return files.status(path).kind == FileKind::directory;
}

bool is_tag(FileSystem& files, const Path& folder) {
  return is_folder(files, folder) &&
         std::ranges::any_of(files.list(folder), [](const std::string& name) {
           const auto file = parse(name);
           return file && !file->optimizer;
         });
}

std::vector<std::string> tags_in(FileSystem& files, const Path& folder) {
  std::vector<std::string> tags;
  for (const auto& name : files.list(folder))
    if (is_tag(files, folder / name)) tags.push_back(name);
  std::ranges::sort(tags);
  return tags;
}

// Reads the tag in a file `latest`; nullopt if there is no such file.
std::optional<std::string> latest_tag(FileSystem& files, const Path& file) {
  constexpr std::size_t kLongest = 1024;
  if (files.status(file).kind != FileKind::file) return std::nullopt;
  const std::string tag(trim(read_file(files, file, kLongest)));
  if (tag.empty() || tag.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos ||
      tag == "." || tag == "..")
    throw CheckpointError(file.string() + " does not name a folder beside it");
  return tag;
}

Path folder_of_tag(FileSystem& files, const Path& folder, const std::string& tag) {
  const std::string among = ": its tags are " + join(tags_in(files, folder), ", ");
  if (!tag.empty()) {
    if (is_tag(files, folder / tag)) return folder / tag;
    throw CheckpointError(folder.string() + " has no checkpoint of DeepSpeed with the tag '" + tag +
                          "'" + among);
  }
  for (const char* name : {"latest", "latest_universal"}) {
    const auto latest = latest_tag(files, folder / name);
    if (!latest) continue;
    if (is_tag(files, folder / *latest)) return folder / *latest;
    throw CheckpointError((folder / name).string() + " names the tag '" + *latest +
                          "', of which there is no checkpoint" + among);
  }
  const auto tags = tags_in(files, folder);
  if (tags.size() == 1) return folder / tags.front();
  if (tags.empty()) throw CheckpointError(folder.string() + " holds no checkpoint of DeepSpeed");
  throw CheckpointError(folder.string() +
                        " holds several checkpoints of DeepSpeed, and no file `latest` names one" +
                        among + ". Name the folder of one");
}

[[noreturn]] void refuse_parallelism(const Path& file, const char* what) {
  throw CheckpointError(file.string() + " is of " + what +
                        ", whose parts are not read. Convert the checkpoint with DeepSpeed's "
                        "ds_to_universal.py and name the result");
}

void refuse_other_parallelism(const Path& folder, const std::vector<std::string>& names,
                              bool universal) {
  for (const auto& name : names) {
    if (name.starts_with("expp_rank_") || name.find("_expert_") != std::string::npos)
      refuse_parallelism(folder / name, "expert parallelism");
    if (!universal && name.starts_with("layer_"))
      refuse_parallelism(folder / name, "pipeline parallelism");
    if (const auto file = parse(name); !universal && file && file->model_rank > 0)
      refuse_parallelism(folder / name, "tensor parallelism");
  }
}

using ByRank = std::map<std::size_t, std::string>;

// Returns the files of the ranks 0, 1, …. All must be there, under one prefix.
std::vector<Path> complete(const Path& folder, const std::map<std::string, ByRank>& by_prefix) {
  std::vector<Path> paths;
  if (by_prefix.empty()) return paths;
  if (by_prefix.size() > 1)
    throw CheckpointError(
        folder.string() + " holds both " + by_prefix.begin()->second.begin()->second + " and " +
        by_prefix.rbegin()->second.begin()->second + ", which are of different trainings");
  const ByRank& ranks = by_prefix.begin()->second;
  for (const auto& [rank, name] : ranks) {
    if (rank != paths.size())
      throw CheckpointError(folder.string() + " has " + name + ", but no file of rank " +
                            std::to_string(paths.size()) + ": was the folder copied completely?");
    paths.push_back(folder / name);
  }
  return paths;
}

}  // namespace

bool DeepSpeedFiles::model_by_rank() const {
  return !models.empty() && !models.front().filename().string().starts_with("mp_rank_");
}

bool holds_deepspeed(FileSystem& files, const Path& folder) {
  if (!is_folder(files, folder)) return false;
  if (is_tag(files, folder)) return true;
  return std::ranges::any_of(files.list(folder),
                             [&](const std::string& name) { return is_tag(files, folder / name); });
}

DeepSpeedFiles find_deepspeed_files(FileSystem& files, const Path& folder, const std::string& tag) {
  if (!is_folder(files, folder)) throw CheckpointError("there is no folder " + folder.string());
  DeepSpeedFiles found;
  found.folder = tag.empty() && is_tag(files, folder) ? folder : folder_of_tag(files, folder, tag);
  found.universal = is_folder(files, found.folder / "zero");
  const auto names = files.list(found.folder);
  refuse_other_parallelism(found.folder, names, found.universal);
  std::map<std::string, ByRank> models, optimizers;
  for (const auto& name : names) {
    const auto file = parse(name);
    if (!file || file->model_rank > 0) continue;
    (file->optimizer ? optimizers : models)[file->prefix].emplace(file->rank, name);
  }
  // A universal checkpoint for any stage has the same model twice.
  if (const auto whole = models.find(""); found.universal && whole != models.end())
    models = {*whole};
  found.models = complete(found.folder, models);
  if (!found.universal) found.optimizers = complete(found.folder, optimizers);
  return found;
}

}  // namespace accelerate
