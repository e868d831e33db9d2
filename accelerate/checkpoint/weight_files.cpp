#include "accelerate/checkpoint/weight_files.h"

#include "accelerate/base/error.h"
#include "accelerate/formats/weights/mapped_weights.h"
#include "accelerate/formats/weights/weight_writer.h"
#include "accelerate/tensor/stored_values.h"
#include "accelerate/tensor/weights.h"

namespace accelerate {

std::vector<NamedTensor> map_weights(const std::filesystem::path& path, FileSystem& files) {
  std::vector<NamedTensor> weights;
  for (const auto& [name, tensor, content] : map_weight_files(path, {}, files).weights) {
    try {
      weights.push_back({name, tensor_view(tensor, content)});
    } catch (const CheckpointError&) {
      throw_with_context<CheckpointError>("cannot load '" + name + "' of " + path.string());
    }
  }
  return weights;
}

void save_weights(const std::vector<NamedTensor>& weights, const std::filesystem::path& folder,
                  std::uint64_t max_shard_bytes, FileSystem& files) {
  write_weights(weight_sources(weights), folder, {.max_shard_bytes = max_shard_bytes}, files);
}

void save_weights(const PlannedFile& planned, const std::filesystem::path& folder,
                  std::uint64_t max_shard_bytes, FileSystem& files) {
  std::vector<WeightSource> sources;
  for (const auto& item : planned.tensors) {
    const auto stream = [&planned, &item](const ByteSink& sink) {
      for_each_piece(data_of(planned, item), sink);
    };
    sources.push_back({spec_of(planned, item), stream});
  }
  write_weights(sources, folder, {.max_shard_bytes = max_shard_bytes}, files);
}

}  // namespace accelerate
