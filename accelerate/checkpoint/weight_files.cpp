#include "accelerate/checkpoint/weight_files.h"

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/formats/weights/mapped_weights.h"
#include "accelerate/tensor/stored_values.h"
#include "accelerate/tensor/weights.h"

namespace accelerate {

WeightReader map_weights(const std::filesystem::path& path, FileSystem& files) {
  const auto stored = std::make_shared<std::map<std::string, MappedWeight>>();
  WeightReader reader;
  for (auto& weight : map_weight_files(path, {}, files).weights) {
    try {
      reader.outlines.push_back({weight.name, outline_of(weight.tensor)});
    } catch (const CheckpointError&) {
      throw_with_context<CheckpointError>("cannot load '" + weight.name + "' of " + path.string());
    }
    stored->emplace(weight.name, std::move(weight));
  }
  reader.read = [stored](const std::string& name) {
    const MappedWeight& weight = stored->at(name);
    return tensor_view(weight.tensor, weight.content);
  };
  reader.read_range = [read = reader.read](const std::string& name, std::int64_t begin,
                                           std::int64_t numel) {
    return read(name).reshape({-1}).narrow(0, begin, numel);
  };
  return reader;
}

void save_weights(const std::vector<NamedTensor>& weights, const std::filesystem::path& folder,
                  std::uint64_t max_shard_bytes, FileSystem& files) {
  write_weights(weight_sources(weights), folder, {.max_shard_bytes = max_shard_bytes}, files);
}

void save_weights(const PlannedFile& planned, const std::filesystem::path& folder,
                  const WriteWeightsOptions& options, FileSystem& files) {
  std::vector<WeightSource> sources;
  for (const auto& item : planned.tensors) {
    const auto stream = [&planned, &item](const ByteSink& sink) {
      for_each_piece(data_of(planned, item), sink);
    };
    sources.push_back({spec_of(planned, item), stream});
  }
  write_weights(sources, folder, options, files);
}

}  // namespace accelerate
