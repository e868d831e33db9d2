#include "accelerate/formats/shards/convertible_checkpoint.h"

#include "accelerate/base/durable_directories.h"
#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/text.h"
#include "accelerate/formats/documents/json.h"
#include "accelerate/formats/manifest.h"
#include "accelerate/formats/shards/shard_files.h"

namespace accelerate::detail {
namespace {

using Path = std::filesystem::path;

constexpr DocumentLimits kStateLimits{.max_bytes = std::size_t{256} << 20, .max_depth = 64};

}  // namespace

ConvertibleCheckpoint::ConvertibleCheckpoint(const Path& source, FileSystem& files)
    : source_(source), files_(files) {
  const Manifest manifest = read_manifest(files, source);
  const auto faults = manifest_faults(files, source, manifest);
  if (!faults.empty())
    throw CheckpointError(
        "the checkpoint " + source.string() + " is damaged: " + join(faults, "; "),
        error_name::kCheckpointDamaged);
  for (const auto& file : manifest.files) names_.insert(file.name);
}

std::string ConvertibleCheckpoint::plain(const std::string& name) {
  const auto colon = name.find(':');
  return name.starts_with("model_") && colon != std::string::npos ? name.substr(colon + 1) : name;
}

std::vector<Path> ConvertibleCheckpoint::tensor_files_of(const std::string& stem) const {
  std::vector<Path> paths;
  for (const auto& name : names_) {
    const auto shard = ShardFileName::parse(name);
    if (shard ? shard->stem == stem : name == stem + ".safetensors")
      paths.push_back(source_ / name);
  }
  return paths;
}

Node ConvertibleCheckpoint::state_of(const std::string& stem) const {
  const Path path = source_ / (stem + ".json");
  return read_json(read_file(files_, path, kStateLimits.max_bytes), path.string(), kStateLimits);
}

Node ConvertibleCheckpoint::initial_rate(std::size_t number, const Node& group) const {
  if (has("scheduler.json")) {
    const Node schedule = state_of("scheduler");
    const Node* rates = schedule.find("base_lrs");
    if (rates != nullptr && number < rates->items.size()) return rates->items[number];
  }
  const Node* rate = group.find("lr");
  return rate == nullptr ? Node() : *rate;
}

void ConvertibleCheckpoint::convert(const std::string& stem, const std::function<void()>& step) {
  try {
    step();
  } catch (const UsageError&) {
    throw;
  } catch (const Error&) {
    throw_with_context<CheckpointError>("cannot convert '" + stem + "' of " + source_.string());
  }
  done_.insert(stem);
}

std::vector<std::string> ConvertibleCheckpoint::left() const {
  std::vector<std::string> left;
  for (const auto& name : names_) {
    const auto stem = name.substr(0, name.find('.'));
    const bool is_state = name.ends_with(".json") && name != "accelerator.json";
    if (is_state && !done_.contains(stem)) left.push_back(stem);
  }
  return left;
}

void convert_into(const Path& source, const Path& output, FileSystem& files,
                  const std::function<void(ConvertibleCheckpoint&)>& convert) {
  if (files.status(output).kind != FileKind::none)
    throw UsageError(output.string() + " exists already: name a new folder");
  const Path within = std::filesystem::weakly_canonical(output).lexically_relative(
      std::filesystem::weakly_canonical(source));
  if (!within.empty() && *within.begin() != "..")
    throw UsageError("the output " + output.string() + " lies in " + source.string() +
                     ", which is to be converted; choose a folder elsewhere");
  ConvertibleCheckpoint checkpoint(source, files);
  create_directories_durably(files, output);
  try {
    convert(checkpoint);
    files.sync_directory(output);
  } catch (...) {
    files.remove_tree(output);
    throw;
  }
}

}  // namespace accelerate::detail
