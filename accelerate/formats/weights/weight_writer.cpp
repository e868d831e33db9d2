#include "accelerate/formats/weights/weight_writer.h"

#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "accelerate/base/durable_directories.h"

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

// Writes a file, but does not commit it.
SafetensorsWriter written(const Path& file, std::vector<TensorSpec> specs, const ByName& sources,
                          const WriteWeightsOptions& options, FileSystem& files) {
  SafetensorsWriter writer(files, file, std::move(specs),
                           {.metadata = options.metadata, .file = options.file});
  for (const TensorSpec& spec : writer.tensors()) writer.append(sources.at(spec.name)->stream);
  return writer;
}

SafetensorsWriter written(const WeightShard& shard, const Path& folder, const ByName& sources,
                          const WriteWeightsOptions& options, FileSystem& files) {
  std::vector<TensorSpec> specs;
  for (const auto& name : shard.names) specs.push_back(*sources.at(name));
  return written(folder / shard.file_name, std::move(specs), sources, options, files);
}

void remove_stale(const Path& folder, const std::set<std::string>& written, const ShardNames& names,
                  FileSystem& files) {
  for (const auto& name : files.list(folder)) {
    if (names.is_own(name) && !written.contains(name)) files.remove(folder / name);
  }
}

// Removes the index first and writes the new one last: without an index, no reader takes shards for
// a complete model.
std::vector<std::string> commit(std::vector<SafetensorsWriter>& pending,
                                const std::vector<WeightShard>& shards, const Path& folder,
                                const WriteWeightsOptions& options, FileSystem& files) {
  const bool sharded = shards.size() > 1;
  const Path index = folder / options.names.index_name();
  if (sharded && files.remove(index)) files.sync_directory(folder);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < pending.size(); ++i) {
    pending[i].commit();
    names.push_back(shards[i].file_name);
  }
  if (sharded) {
    write_file_atomically(files, index, weight_index_text(index_of(shards)), options.file);
    names.push_back(options.names.index_name());
  }
  return names;
}

void save(const std::vector<WeightSource>& weights, const std::vector<WeightShard>& shards,
          const Path& folder, const WriteWeightsOptions& options, FileSystem& files,
          WrittenWeights& result) {
  const ByName sources = by_name(weights);
  NewFolders made(files, folder);
  files.create_directories(folder);
  std::vector<SafetensorsWriter> pending;
  for (const auto& shard : shards)
    pending.push_back(written(shard, folder, sources, options, files));
  result.files = commit(pending, shards, folder, options, files);
  made.keep();
  remove_stale(folder, {result.files.begin(), result.files.end()}, options.names, files);
}

WrittenWeights summary(const std::vector<WeightSource>& weights) {
  WrittenWeights result{.files = {}, .tensors = weights.size()};
  for (const auto& item : items_of(weights)) result.size_bytes += item.size_bytes;
  return result;
}

}  // namespace

WrittenWeights write_weights(const std::vector<WeightSource>& weights, const Path& folder,
                             const WriteWeightsOptions& options, FileSystem& files) {
  const auto shards = plan_shards(items_of(weights), options.max_shard_bytes, options.names);
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
  written(file, {weights.begin(), weights.end()}, by_name(weights), options, files).commit();
  made->keep();
  result.files = {file.filename().string()};
  return result;
}

}  // namespace accelerate
