#include "accelerate/formats/weights/weight_writer.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "accelerate/base/durable_directories.h"
#include "accelerate/formats/torch_archive/torch_archive_writer.h"

namespace accelerate {
namespace {

using Path = std::filesystem::path;
using ByName = std::map<std::string_view, const WeightSource*>;

ByName by_name(const std::vector<WeightSource>& weights) {
  ByName named;
  for (const WeightSource& weight : weights) named.emplace(weight.name, &weight);
  return named;
}

// Returns names and sizes. A size that overflows becomes 0 here and is refused by the layout.
std::vector<ShardItem> items_of(const std::vector<WeightSource>& weights) {
  std::vector<ShardItem> items;
  for (const WeightSource& weight : weights)
    items.push_back({weight.name, bytes_of(weight.dtype, weight.shape).value_or(0)});
  return items;
}

// A file that is written and waits for its commit.
using Commit = std::function<void()>;

// Returns the commit of a file whose tensors are all written.
template <typename Writer>
Commit filled(std::shared_ptr<Writer> writer, const ByName& sources) {
  for (const TensorSpec& spec : writer->tensors()) writer->append(sources.at(spec.name)->stream);
  return [writer] { writer->commit(); };
}

Commit written(const Path& file, std::vector<TensorSpec> specs, const ByName& sources,
               const WriteWeightsOptions& options, FileSystem& files) {
  if (!options.safe_serialization) {
    return filled(std::make_shared<TorchArchiveWriter>(files, file, std::move(specs), options.file),
                  sources);
  }
  const SafetensorsWriteOptions how{.metadata = options.metadata, .file = options.file};
  return filled(std::make_shared<SafetensorsWriter>(files, file, std::move(specs), how), sources);
}

Commit written(const WeightShard& shard, const Path& folder, const ByName& sources,
               const WriteWeightsOptions& options, FileSystem& files) {
  std::vector<TensorSpec> specs;
  for (const auto& name : shard.names) specs.push_back(*sources.at(name));
  return written(folder / shard.file_name, std::move(specs), sources, options, files);
}

// Removes what earlier saves left. Beside files of torch.save no safetensors may stay: readers would
// take them instead.
void remove_stale(const Path& folder, const std::set<std::string>& written,
                  const WriteWeightsOptions& options, FileSystem& files) {
  for (const auto& name : files.list(folder)) {
    const bool own = weight_names(true).is_own(name) ||
                     (!options.safe_serialization && weight_names(false).is_own(name));
    if (own && !written.contains(name)) files.remove(folder / name);
  }
}

// Removes the index first and writes the new one last: without an index, no reader takes shards for
// a complete model.
std::vector<std::string> commit(const std::vector<Commit>& pending,
                                const std::vector<WeightShard>& shards, const Path& folder,
                                const WriteWeightsOptions& options, FileSystem& files) {
  const bool sharded = shards.size() > 1;
  const std::string index_name = weight_names(options.safe_serialization).index_name();
  const Path index = folder / index_name;
  if (sharded && files.remove(index)) files.sync_directory(folder);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < pending.size(); ++i) {
    pending[i]();
    names.push_back(shards[i].file_name);
  }
  if (sharded) {
    write_file_atomically(files, index, weight_index_text(index_of(shards)), options.file);
    names.push_back(index_name);
  }
  return names;
}

void save(const std::vector<WeightSource>& weights, const std::vector<WeightShard>& shards,
          const Path& folder, const WriteWeightsOptions& options, FileSystem& files,
          WrittenWeights& result) {
  const ByName sources = by_name(weights);
  NewFolders made(files, folder);
  files.create_directories(folder);
  std::vector<Commit> pending;
  for (const auto& shard : shards)
    pending.push_back(written(shard, folder, sources, options, files));
  result.files = commit(pending, shards, folder, options, files);
  made.keep();
  remove_stale(folder, {result.files.begin(), result.files.end()}, options, files);
}

WrittenWeights summary(const std::vector<WeightSource>& weights) {
  WrittenWeights result{.files = {}, .tensors = weights.size()};
  for (const auto& item : items_of(weights)) result.size_bytes += item.size_bytes;
  return result;
}

}  // namespace

WrittenWeights write_weights(const std::vector<WeightSource>& weights, const Path& folder,
                             const WriteWeightsOptions& options, FileSystem& files) {
  const auto shards = plan_shards(items_of(weights), options.max_shard_bytes,
                                  weight_names(options.safe_serialization));
  WrittenWeights result = summary(weights);
  try {
    save(weights, shards, folder, options, files, result);
  } catch (const UsageError&) {
    throw;
  } catch (const Error&) {
    throw_with_context<CheckpointError>("the weights in " + folder.string() + " were not saved");
  }
  return result;
}

WrittenWeights write_weights_file(const std::vector<WeightSource>& weights, const Path& file,
                                  const WriteWeightsOptions& options, FileSystem& files) {
  WrittenWeights result = summary(weights);
  std::optional<NewFolders> made;
  try {
    made.emplace(files, file.parent_path());
    if (file.has_parent_path()) files.create_directories(file.parent_path());
  } catch (const Error&) {
    throw_with_context<CheckpointError>("cannot make the folder for " + file.string());
  }
  written(file, {weights.begin(), weights.end()}, by_name(weights), options, files)();
  made->keep();
  result.files = {file.filename().string()};
  return result;
}

}  // namespace accelerate
