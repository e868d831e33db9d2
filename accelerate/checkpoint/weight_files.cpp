#include "accelerate/checkpoint/weight_files.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <memory>
#include <span>

#include "accelerate/base/error.h"
#include "accelerate/formats/mapped_weights.h"
#include "accelerate/formats/weight_writer.h"
#include "accelerate/tensor/dtype.h"
#include "accelerate/tensor/weights.h"

namespace accelerate {
namespace {

using Path = std::filesystem::path;

at::Tensor view_of(const TorchTensor& stored, const std::shared_ptr<const FileContent>& content) {
  const auto type = to_scalar_type(stored.dtype);
  const auto shape = from_stored_shape(stored.dtype, stored.shape);
  if (stored.contiguous() && stored.aligned() && !stored.bytes.empty()) {
    return at::from_blob(
        const_cast<std::byte*>(stored.bytes.data()), shape, [content](void*) {}, type);
  }
  at::Tensor tensor = at::empty(shape, type);
  stored.copy_to(std::span(static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()));
  return tensor;
}

}  // namespace

std::vector<NamedTensor> map_weights(const Path& path, FileSystem& files) {
  std::vector<NamedTensor> weights;
  for (const auto& [name, tensor, content] : map_weight_files(path, {}, files).weights) {
    try {
      weights.push_back({name, view_of(tensor, content)});
    } catch (const CheckpointError&) {
      throw_with_context<CheckpointError>("cannot load '" + name + "' of " + path.string());
    }
  }
  return weights;
}

void save_weights(const std::vector<NamedTensor>& weights, const Path& folder,
                  std::uint64_t max_shard_bytes, FileSystem& files) {
  write_weights(weight_sources(weights), folder, {.max_shard_bytes = max_shard_bytes}, files);
}

}  // namespace accelerate
