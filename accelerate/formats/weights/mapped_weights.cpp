#include "accelerate/formats/weights/mapped_weights.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/formats/torch_archive/torch_archive.h"
#include "accelerate/formats/weights/weight_index.h"

namespace accelerate {
namespace {

using Path = std::filesystem::path;

// The arguments of map_weight_files().
struct Request {
  const MapWeightsOptions& options;
  FileSystem& files;
};

TorchTensor row_major(const StoredTensor& stored) {
  TorchTensor tensor;
  tensor.dtype = stored.dtype;
  tensor.shape = stored.shape;
  tensor.strides.assign(stored.shape.size(), 1);
  // The dimensions of an empty tensor may be so large that their product overflows.
  const bool empty = stored.bytes.empty();
  for (std::size_t d = stored.shape.size(); !empty && d-- > 1;)
    tensor.strides[d - 1] = tensor.strides[d] * tensor.shape[d];
  tensor.bytes = stored.bytes;
  tensor.storage = stored.name;
  tensor.storage_bytes = stored.bytes.size();
  return tensor;
}

MappedWeights map_safetensors(const Path& path, const Request& request) {
  if (!request.options.key.empty())
    throw CheckpointError(path.string() + " is safetensors, which has nothing below a key like '" +
                          request.options.key + "': leave the key out");
  const auto file = SafetensorsFile::open(path, request.files);
  MappedWeights mapped{.weights = {}, .metadata = file.metadata()};
  for (const auto& stored : file.tensors())
    mapped.weights.push_back({stored.name, row_major(stored), file.content()});
  return mapped;
}

MappedWeights map_archive(const Path& path, const Request& request) {
  const auto archive = TorchArchive::open(path, request.files);
  MappedWeights mapped;
  for (const auto& [name, tensor] : archive.state_dict(request.options.key))
    mapped.weights.push_back({name, *tensor, archive.content()});
  return mapped;
}

MappedWeights map_file(const Path& path, const Request& request) {
  const auto extension = lower(path.extension().string());
  if (extension == ".safetensors") return map_safetensors(path, request);
  constexpr std::array kArchives = {".bin", ".pt", ".pth", ".ckpt"};
  if (std::ranges::find(kArchives, extension) != kArchives.end()) return map_archive(path, request);
  throw CheckpointError(
      path.string() +
      " has an extension that is not known; weights are .safetensors, or .bin, "
      ".pt, .pth, .ckpt of torch.save, or an .index.json that lists several files");
}

MappedWeights map_index(const Path& path, const Request& request) {
  const auto index = read_weight_index(path, request.files);
  MappedWeights all;
  std::set<std::string> found;
  for (const auto& name : index.file_names()) {
    MappedWeights mapped = map_file(path.parent_path() / name, request);
    all.metadata.merge(mapped.metadata);
    for (auto& weight : mapped.weights) {
      const auto listed = index.files.find(weight.name);
      if (listed == index.files.end() || listed->second != name) continue;
      found.insert(weight.name);
      all.weights.push_back(std::move(weight));
    }
  }
  for (const auto& [name, file] : index.files) {
    if (!found.contains(name))
      throw CheckpointError(path.string() + " lists '" + name + "' in " + file + ", but " + file +
                            " does not contain it");
  }
  return all;
}

MappedWeights map_any(const Path& path, const Request& request) {
  const auto kind = request.files.status(path).kind;
  if (kind == FileKind::none) throw CheckpointError("there are no weights at " + path.string());
  if (kind != FileKind::directory) {
    const bool index = path.string().ends_with(".index.json");
    return index ? map_index(path, request) : map_file(path, request);
  }
  for (const char* name : {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
                           "pytorch_model.bin.index.json"}) {
    if (request.files.status(path / name).kind == FileKind::file)
      return map_any(path / name, request);
  }
  throw CheckpointError(path.string() +
                        " has no weights: none of model.safetensors, pytorch_model.bin, or the "
                        ".index.json of either");
}

}  // namespace

MappedWeights map_weight_files(const Path& path, const MapWeightsOptions& options,
                               FileSystem& files) {
  return map_any(path, {options, files});
}

std::vector<TiedWeight> remove_ties(std::vector<MappedWeight>& weights) {
  using Place =
      std::tuple<const std::byte*, DType, std::vector<std::int64_t>, std::vector<std::int64_t>>;
  std::map<Place, std::string> seen;
  std::vector<TiedWeight> ties;
  std::erase_if(weights, [&](const MappedWeight& weight) {
    const TorchTensor& tensor = weight.tensor;
    if (tensor.bytes.empty()) return false;
    auto strides = tensor.strides;
    for (std::size_t d = 0; d < strides.size(); ++d)
      if (tensor.shape[d] == 1) strides[d] = 1;  // This stride is never used.
    const auto [kept, first] = seen.emplace(
        Place{tensor.bytes.data(), tensor.dtype, tensor.shape, std::move(strides)}, weight.name);
    if (!first) ties.push_back({weight.name, kept->second});
    return !first;
  });
  return ties;
}

std::vector<WeightSource> weight_sources(const std::vector<MappedWeight>& weights) {
  std::vector<WeightSource> sources;
  for (const MappedWeight& weight : weights) {
    const TensorSpec spec{weight.name, weight.tensor.dtype, weight.tensor.shape};
    sources.push_back({spec, [tensor = weight.tensor, content = weight.content](
                                 const ByteSink& sink) { tensor.stream_to(sink); }});
  }
  return sources;
}

}  // namespace accelerate
