#include "accelerate/formats/shards/merged_weights.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "accelerate/base/durable_directories.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/text.h"
#include "accelerate/formats/manifest.h"
#include "accelerate/formats/shards/deepspeed_checkpoint.h"
#include "accelerate/formats/shards/fsdp_files.h"
#include "accelerate/formats/shards/shard_catalogue.h"
#include "accelerate/formats/shards/shard_files.h"
#include "accelerate/formats/weights/mapped_weights.h"
#include "accelerate/formats/weights/weight_index.h"

namespace accelerate {
namespace {

using Path = std::filesystem::path;

// Whether `stem` names a model: "model", "model_1", ….
bool is_model(std::string_view stem) {
  return stem == "model" || (stem.starts_with("model_") && detail::all_digits(stem.substr(6)));
}

// The files of one model's weights in a folder.
struct Layout {
  std::vector<std::string> shards;   // Names of the files that hold parts.
  std::optional<std::string> whole;  // The single file, or the index of several files.
  std::optional<FsdpFiles> fsdp;     // What FSDP of Python saved.

  // Returns the name of one of its files for each form in which it is there.
  [[nodiscard]] std::vector<std::string> forms() const {
    std::vector<std::string> all;
    if (whole) all.push_back(*whole);
    if (!shards.empty()) all.push_back(shards.front());
    if (fsdp) all.push_back(fsdp->paths.front().filename().string());
    return all;
  }
};

using Models = std::map<std::string, Layout>;  // By stem.

Models models_among(const std::vector<std::string>& names) {
  Models models;
  for (const auto& name : names) {
    if (const auto shard = ShardFileName::parse(name); shard && is_model(shard->stem)) {
      models[shard->stem].shards.push_back(name);
      continue;
    }
    for (const std::string_view extension : {".safetensors", ".safetensors.index.json"}) {
      if (!name.ends_with(extension)) continue;
      const auto stem = name.substr(0, name.size() - extension.size());
      if (!is_model(stem)) continue;
      auto& whole = models[stem].whole;
      if (!whole || extension == ".safetensors") whole = name;
    }
  }
  return models;
}

// Adds what FSDP of Python saved: the folder itself, or what a state folder holds.
void add_fsdp_models(const Path& folder, Models& models, FileSystem& files) {
  if (is_distcp(folder, files)) {
    models["model"].fsdp = FsdpFiles{FsdpFiles::Form::distcp, {folder}};
    return;
  }
  for (int number = 0;; ++number) {
    auto found = fsdp_files_in(folder, kFsdpModel, number, files);
    if (!found) return;
    models[number == 0 ? "model" : "model_" + std::to_string(number)].fsdp = std::move(found);
  }
}

void refuse_others(const Path& folder, const std::vector<std::string>& names) {
  for (const auto& name : names) {
    if (name.ends_with(".distcp"))
      throw CheckpointError(
          folder.string() + " holds '" + name +
              "', and no .metadata that says what lies in it: the file whose name "
              "begins with a dot was not copied, or the save was interrupted",
          error_name::kCheckpointUnfinished);
    if (name == "pytorch_model.bin" || name == "pytorch_model.bin.index.json")
      throw CheckpointError(
          folder.string() + " holds '" + name +
          "', a file of torch.save: `accelerate convert` makes safetensors of it");
  }
}

std::string stems_of(const Models& models) {
  std::vector<std::string> stems;
  for (const auto& [stem, layout] : models) stems.push_back(stem);
  return join(stems, ", ");
}

// The weights to be merged.
struct Source {
  Path folder;
  Path real;  // Absolute and without links, so valid in any working directory.
  std::string stem = {};
  Layout layout = {};
  std::vector<std::string> names = {};    // All names in the folder.
  std::optional<Manifest> manifest = {};  // Of a state folder only.
  std::string other_models = {};
  std::optional<DeepSpeedCheckpoint> deepspeed = {};
};

Source choose(Source source, const Models& models, const std::string& asked) {
  const auto chosen = asked.empty() ? models.begin() : models.find(asked);
  if (asked.empty() && models.size() > 1)
    throw CheckpointError(source.folder.string() + " holds several models: " + stems_of(models) +
                          ". Name one with --model");
  if (chosen == models.end())
    throw CheckpointError(source.folder.string() + " holds no weights of '" + asked +
                          "'; its models: " + stems_of(models));
  source.stem = chosen->first;
  source.layout = chosen->second;
  for (const auto& [stem, layout] : models)
    if (stem != source.stem)
      source.other_models += (source.other_models.empty() ? "" : ", ") + stem;
  if (const auto forms = source.layout.forms(); forms.size() > 1)
    throw CheckpointError(source.folder.string() + " holds both '" + forms[0] + "' and '" +
                          forms[1] + "': which of them are the weights? Move the others away");
  return source;
}

// Returns a hint at the first subfolder that holds weights, such as the `sharded` of PyTorch's
// consolidated checkpoints; "" if there is none.
std::string hint_at_subfolder(const Path& folder, const std::vector<std::string>& names,
                              FileSystem& files) {
  for (const auto& name : names) {
    try {
      const Path below = folder / name;
      if (files.status(below).kind != FileKind::directory) continue;
      if (is_distcp(below, files) || !models_among(files.list(below)).empty())
        return ". Its subfolder '" + name + "' does: merge " + below.string();
    } catch (const FileError&) {  // A folder that cannot be read gives no hint.
    }
  }
  return "";
}

[[noreturn]] void refuse_empty(const Path& folder, const std::vector<std::string>& names,
                               FileSystem& files) {
  refuse_others(folder, names);
  throw CheckpointError(folder.string() +
                        " holds no weights: neither shards (shard-00001-model-…, "
                        "pytorch_model_fsdp_0) nor model.safetensors nor its index" +
                        hint_at_subfolder(folder, names, files));
}

// A checkpoint of DeepSpeed has one model a tag.
Source find_deepspeed(Source source, const MergeWeightsOptions& options, FileSystem& files) {
  if (!options.model.empty())
    throw CheckpointError(source.folder.string() +
                          " is a checkpoint of DeepSpeed, which has one model a tag: leave out "
                          "the model, or name its tag");
  source.stem = "model";
  source.deepspeed = DeepSpeedCheckpoint::open(
      source.folder,
      {.tag = options.tag, .exclude_frozen_parameters = options.exclude_frozen_parameters}, files);
  return source;
}

void refuse_options_of_deepspeed(const Source& source, const MergeWeightsOptions& options) {
  if (options.tag.empty() && !options.exclude_frozen_parameters) return;
  throw CheckpointError(source.folder.string() + " is no checkpoint of DeepSpeed: " +
                        (options.tag.empty() ? "what was frozen" : "tags") +
                        " can be told apart only there");
}

Source find_source(const Path& folder, const MergeWeightsOptions& options, FileSystem& files) {
  const auto kind = files.status(folder).kind;
  if (kind == FileKind::none) throw CheckpointError("there is no folder " + folder.string());
  if (kind != FileKind::directory)
    throw CheckpointError(folder.string() + " is a file; what is merged is a folder of weights");
  Source source{.folder = folder,
                .real = std::filesystem::weakly_canonical(folder),
                .names = files.list(folder)};
  std::vector<std::string> listed = source.names;
  if (files.status(folder / Manifest::kName).kind != FileKind::none) {
    source.manifest = read_manifest(files, folder);
    listed.clear();  // Files that it does not list are not part of the checkpoint.
    for (const auto& file : source.manifest->files) listed.push_back(file.name);
  }
  Models models = models_among(listed);
  if (!source.manifest) add_fsdp_models(folder, models, files);
  const bool by_others = models.empty() || !options.tag.empty();
  if (!source.manifest && by_others && holds_deepspeed(files, folder))
    return find_deepspeed(std::move(source), options, files);
  refuse_options_of_deepspeed(source, options);
  if (models.empty()) refuse_empty(folder, source.names, files);
  return choose(std::move(source), models, options.model);
}

void check_checksums(const Source& source, const std::vector<std::string>& chosen,
                     FileSystem& files) {
  if (!source.manifest) return;
  Manifest part{.num_processes = source.manifest->num_processes, .files = {}};
  for (const auto& file : source.manifest->files)
    if (std::ranges::find(chosen, file.name) != chosen.end()) part.files.push_back(file);
  const auto faults = manifest_faults(files, source.folder, part);
  if (!faults.empty())
    throw CheckpointError(
        "the checkpoint " + source.folder.string() + " is damaged: " + join(faults, "; "),
        error_name::kCheckpointDamaged);
}

// The files to read, and the index if only the tensors that it lists count.
struct Inputs {
  std::vector<std::string> names;  // Of files in the folder.
  std::optional<WeightIndex> index;
  std::size_t count = names.size();
};

// Returns the files that are read, without their folder.
Inputs inputs_of_fsdp(const FsdpFiles& fsdp, const Path& folder, FileSystem& files) {
  Inputs inputs;
  if (fsdp.form != FsdpFiles::Form::distcp) {
    for (const auto& path : fsdp.paths) inputs.names.push_back(path.filename().string());
    inputs.count = inputs.names.size();
    return inputs;
  }
  const Path& place = fsdp.paths.front();
  std::vector<std::string> parts;
  for (auto& name : files.list(place))
    if (name == ".metadata" || name.ends_with(".distcp")) parts.push_back(std::move(name));
  inputs.count = parts.size() - 1;
  inputs.names = place == folder ? std::move(parts) : std::vector{place.filename().string()};
  return inputs;
}

Inputs inputs_of(const Source& source, FileSystem& files) {
  if (source.deepspeed) {
    Inputs inputs;
    for (const auto* paths :
         {&source.deepspeed->files().models, &source.deepspeed->files().optimizers})
      for (const Path& path : *paths)
        inputs.names.push_back(path.lexically_relative(source.folder).string());
    inputs.count = inputs.names.size();
    return inputs;
  }
  if (source.layout.fsdp) return inputs_of_fsdp(*source.layout.fsdp, source.folder, files);
  if (!source.layout.whole) return {.names = source.layout.shards, .index = {}};
  const std::string& name = *source.layout.whole;
  if (name.ends_with(".safetensors")) return {.names = {name}, .index = {}};
  auto index = read_weight_index(source.folder / name, files);
  auto names = index.file_names();
  return {.names = std::move(names), .index = std::move(index)};
}

std::vector<Path> paths_of(const Inputs& inputs, const Source& source) {
  std::vector<Path> paths;
  for (const auto& name : inputs.names) paths.push_back(source.folder / name);
  return paths;
}

ShardCatalogue open(const Inputs& inputs, const Source& source, FileSystem& files) {
  if (source.layout.fsdp) return open_fsdp_model(*source.layout.fsdp, files);
  if (source.deepspeed) return source.deepspeed->weights();
  const auto paths = paths_of(inputs, source);
  if (!inputs.index) return ShardCatalogue::open(paths, files);
  const auto counts = [&inputs](std::size_t file, std::string_view tensor) {
    const auto listed = inputs.index->files.find(std::string(tensor));
    return listed != inputs.index->files.end() && listed->second == inputs.names[file];
  };
  return ShardCatalogue::open(paths, counts, files);
}

std::vector<WeightSource> sources_of(const ShardCatalogue& catalogue, const Inputs& inputs,
                                     const Source& source) {
  std::vector<WeightSource> weights;
  for (const ShardedTensor& tensor : catalogue.tensors()) {
    const TensorSpec spec{name_from_shards(source.stem, tensor.name), tensor.dtype, tensor.shape};
    weights.push_back(
        {spec, [&tensor](const ByteSink& sink) { ShardCatalogue::stream(tensor, sink); }});
  }
  if (inputs.index) {
    for (const auto& [name, file] : inputs.index->files)
      if (catalogue.find(name) == nullptr)
        throw CheckpointError(*source.layout.whole + " in " + source.folder.string() + " lists '" +
                              name + "' in " + file + ", but " + file + " does not contain it");
  }
  return weights;
}

bool lies_in(const Path& inner, const Path& outer) {
  const Path within = std::filesystem::weakly_canonical(inner).lexically_relative(
      std::filesystem::weakly_canonical(outer));
  return !within.empty() && *within.begin() != "..";
}

// Whether the path itself is a link; its parent folders may be links.
bool is_link(Path path) {
  while (path.has_relative_path() && path.has_parent_path() &&
         (path.filename().empty() || path.filename() == "."))
    path = path.parent_path();
  std::error_code ignored;
  return std::filesystem::is_symlink(path, ignored);
}

// Throws CheckpointError if removing the source would lose more than was merged.
void check_removable(const Source& source, const Inputs& inputs) {
  if (source.deepspeed)
    throw CheckpointError(source.folder.string() +
                          " is a checkpoint of DeepSpeed, which holds more than what is merged. "
                          "Remove it by hand, or leave out --remove_checkpoint_dir");
  if (is_link(source.folder))
    throw CheckpointError(source.folder.string() + " is a symbolic link to " +
                          source.real.string() +
                          ", which others may use under its own name. Name the folder itself to "
                          "have it removed, or leave out --remove_checkpoint_dir");
  if (!source.other_models.empty())
    throw CheckpointError(source.folder.string() + " also holds " + source.other_models +
                          ", which would be lost: merge them first, and remove the folder with the "
                          "last one's own command, or by hand");
  std::set<std::string> known(inputs.names.begin(), inputs.names.end());
  known.insert({".lock", Manifest::kName});
  if (source.layout.whole) known.insert(*source.layout.whole);
  if (source.manifest)
    for (const auto& file : source.manifest->files) known.insert(file.name);
  for (const auto& name : source.names) {
    if (!known.contains(name))
      throw CheckpointError(
          source.folder.string() + " holds '" + name +
          "', which is not a part of what is merged and would be lost. Move it, or "
          "leave out --remove_checkpoint_dir");
  }
}

// Reads back what was written, as any reader would, and compares it with the source. Called before
// the source is removed.
void check_written(const Source& source, const ShardCatalogue& catalogue, const Path& output,
                   const WrittenWeights& written, FileSystem& files) {
  const auto merged = map_weight_files(output / written.files.back(), {}, files);
  for (const MappedWeight& copy : merged.weights) {
    const ShardedTensor* told_apart = catalogue.find(name_in_shards(source.stem, copy.name));
    const ShardedTensor& tensor = told_apart != nullptr ? *told_apart : catalogue.at(copy.name);
    auto rest = copy.tensor.bytes;
    ShardCatalogue::stream(tensor, [&](std::span<const std::byte> piece) {
      if (!std::ranges::equal(piece, rest.first(std::min(piece.size(), rest.size()))))
        throw CheckpointError("'" + copy.name + "' in " + output.string() +
                              " is not what was written; " + source.folder.string() +
                              " stays. Is the disk damaged?");
      rest = rest.subspan(piece.size());
    });
  }
}

void remove_source(const Source& source, const Path& output, FileSystem& files) {
  try {
    files.remove_tree(source.real);
  } catch (const Error&) {
    throw_with_context<CheckpointError>(
        "the weights were merged and verified in " + output.string() + ", but " +
        source.real.string() + " could not be removed, or only in part; remove it by hand");
  }
}

}  // namespace

MergedWeights merge_weights(const Path& source_folder, const Path& output,
                            const MergeWeightsOptions& options, FileSystem& files) {
  const Source source = find_source(source_folder, options, files);
  if (lies_in(output, source_folder))
    throw UsageError("the output " + output.string() + " lies in " + source_folder.string() +
                     ", which is to be merged; choose a folder elsewhere");
  const Inputs inputs = inputs_of(source, files);
  if (options.remove_source) check_removable(source, inputs);
  check_checksums(source, inputs.names, files);
  MergedWeights merged{.written = {}, .source_files = inputs.count};
  {
    const auto catalogue = open(inputs, source, files);
    NewFolders made(files, output);
    create_directories_durably(files, output);
    merged.written = write_weights(sources_of(catalogue, inputs, source), output,
                                   {.max_shard_bytes = options.max_shard_bytes,
                                    .safe_serialization = options.safe_serialization},
                                   files);
    made.keep();
    if (options.remove_source) check_written(source, catalogue, output, merged.written, files);
  }
  if (options.remove_source) remove_source(source, output, files);
  return merged;
}

}  // namespace accelerate
