#include "accelerate/formats/shards/convertible_checkpoint.h"

#include <algorithm>
#include <array>

#include "accelerate/base/durable_directories.h"
#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/text.h"
#include "accelerate/formats/documents/json.h"
#include "accelerate/formats/documents/python_json.h"
#include "accelerate/formats/manifest.h"
#include "accelerate/formats/shards/shard_files.h"

namespace accelerate::detail {
namespace {

using Path = std::filesystem::path;

constexpr DocumentLimits kStateLimits{.max_bytes = std::size_t{256} << 20, .max_depth = 64};

constexpr const char* kTrainerState = "trainer_state.json";

// Whether a file of a Trainer's checkpoint is for any reader, and no state of save_state or of the
// loop.
bool is_for_all(const std::string& name) {
  constexpr std::array kOwn = {"accelerator", "training_args", "training_loop", "scaler"};
  constexpr std::array kNumbered = {"model",      "optimizer",     "scheduler",
                                    "dataloader", "random_states", "custom_checkpoint"};
  const std::string stem = name.substr(0, name.find('.'));
  const auto is_of = [&](const std::string& kind) {
    return stem == kind ||
           (stem.starts_with(kind + "_") && parse_int(stem.substr(kind.size() + 1)));
  };
  return !name.ends_with(".safetensors") && std::ranges::find(kOwn, stem) == kOwn.end() &&
         std::ranges::none_of(kNumbered, is_of);
}

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

std::optional<std::int64_t> ConvertibleCheckpoint::trainer_step() const {
  if (!has(kTrainerState)) return std::nullopt;
  const std::string text = read_file(files_, source_ / kTrainerState, kStateLimits.max_bytes);
  const Node state =
      read_json(with_quoted_infinities(text), (source_ / kTrainerState).string(), kStateLimits);
  const Node* step = state.find("global_step");
  const auto number = step == nullptr ? std::nullopt : parse_int(step->text);
  if (number && *number >= 0) return number;
  throw CheckpointError((source_ / kTrainerState).string() + " has no global_step");
}

std::vector<std::string> ConvertibleCheckpoint::copy_trainer_files(const Path& output) {
  std::vector<std::string> copied;
  for (const auto& name : names_) {
    if (!is_for_all(name)) continue;
    write_file_atomically(files_, output / name,
                          read_file(files_, source_ / name, kStateLimits.max_bytes));
    done_.insert(name.substr(0, name.find('.')));
    copied.push_back(name);
  }
  return copied;
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
