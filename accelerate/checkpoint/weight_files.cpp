#include "accelerate/checkpoint/weight_files.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/formats/torch_archive.h"
#include "accelerate/formats/weight_index.h"
#include "accelerate/tensor/dtype.h"
#include "accelerate/tensor/weights.h"

namespace accelerate {
namespace {

using Path = std::filesystem::path;

// --- reading
// ---------------------------------------------------------------------------------------

at::Tensor view_of(const TorchTensor& stored, const std::shared_ptr<const FileContent>& content) {
  const auto dtype = to_scalar_type(stored.dtype);
  if (stored.contiguous() && stored.aligned() && !stored.bytes.empty()) {
    return at::from_blob(
        const_cast<std::byte*>(stored.bytes.data()), stored.shape, [content](void*) {}, dtype);
  }
  at::Tensor tensor = at::empty(stored.shape, dtype);
  stored.copy_to(std::span(static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()));
  return tensor;
}

std::vector<NamedTensor> map_archive(const Path& path, FileSystem& files) {
  const auto archive = TorchArchive::open(path, files);
  std::vector<NamedTensor> weights;
  for (const auto& [name, tensor] : archive.state_dict())
    weights.push_back({name, view_of(*tensor, archive.content())});
  return weights;
}

std::vector<NamedTensor> map_file(const Path& path, FileSystem& files) {
  const auto extension = lower(path.extension().string());
  if (extension == ".safetensors") return map_tensors(path, files);
  for (const char* archive : {".bin", ".pt", ".pth", ".ckpt"})
    if (extension == archive) return map_archive(path, files);
  throw CheckpointError(path.string() +
                        " has an extension that is not known; weights are .safetensors, or .bin, "
                        ".pt, .pth, .ckpt of torch.save, or an .index.json of several");
}

std::vector<NamedTensor> map_index(const Path& path, FileSystem& files) {
  const auto index = read_weight_index(path, files);
  std::vector<NamedTensor> weights;
  std::set<std::string> found;
  for (const auto& name : index.file_names()) {
    for (auto& weight : map_file(path.parent_path() / name, files)) {
      const auto listed = index.files.find(weight.name);
      if (listed == index.files.end() || listed->second != name) continue;
      found.insert(weight.name);
      weights.push_back(std::move(weight));
    }
  }
  for (const auto& [name, file] : index.files) {
    if (!found.contains(name))
      throw CheckpointError(path.string() + " says that '" + name + "' is in " + file +
                            ", which does not have it");
  }
  return weights;
}

// --- writing
// ---------------------------------------------------------------------------------------

std::vector<ShardItem> items_of(const std::vector<NamedTensor>& weights) {
  std::vector<ShardItem> items;
  for (const auto& [name, tensor] : weights) {
    if (!tensor.defined())
      throw CheckpointError("cannot save '" + name + "': the tensor is undefined");
    items.push_back({name, static_cast<std::uint64_t>(tensor.nbytes())});
  }
  return items;
}

void remove_stale(const Path& folder, const std::set<std::string>& written, const ShardNames& names,
                  FileSystem& files) {
  for (const auto& name : files.list(folder)) {
    if (names.is_own(name) && !written.contains(name)) files.remove(folder / name);
  }
}

}  // namespace

std::vector<NamedTensor> map_weights(const Path& path, FileSystem& files) {
  const auto kind = files.status(path).kind;
  if (kind == FileKind::none) throw CheckpointError("there are no weights at " + path.string());
  if (kind != FileKind::directory) {
    return path.string().ends_with(".index.json") ? map_index(path, files) : map_file(path, files);
  }
  for (const char* name : {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
                           "pytorch_model.bin.index.json"}) {
    if (files.status(path / name).kind == FileKind::file) return map_weights(path / name, files);
  }
  throw CheckpointError(path.string() +
                        " has no weights: none of model.safetensors, pytorch_model.bin, or the "
                        ".index.json of either");
}

void save_weights(const std::vector<NamedTensor>& weights, const Path& folder,
                  std::uint64_t max_shard_bytes, FileSystem& files) {
  const ShardNames names;
  const auto shards = plan_shards(items_of(weights), max_shard_bytes, names);
  std::map<std::string, at::Tensor> by_name;
  for (const auto& [name, tensor] : weights) by_name.emplace(name, tensor);
  try {
    files.create_directories(folder);
    std::set<std::string> written;
    std::vector<TensorFile> pending;
    for (const auto& shard : shards) {
      std::vector<NamedTensor> tensors;
      for (const auto& name : shard.names) tensors.push_back({name, by_name.at(name)});
      pending.emplace_back(tensors, folder / shard.file_name, files);
      written.insert(shard.file_name);
    }
    const bool sharded = shards.size() > 1;
    if (sharded && files.remove(folder / names.index_name())) files.sync_directory(folder);
    for (auto& file : pending) file.commit();
    if (sharded) {
      written.insert(names.index_name());
      write_file_atomically(files, folder / names.index_name(),
                            weight_index_text(index_of(shards)));
    }
    remove_stale(folder, written, names, files);
  } catch (const UsageError&) {
    throw;
  } catch (const Error&) {
    throw_with_context<CheckpointError>("the weights in " + folder.string() + " were not saved");
  }
}

}  // namespace accelerate
