#include "accelerate/tensor/weights.h"

#include <ATen/ATen.h>

#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/tensor/dtype.h"

namespace accelerate {
namespace {

TensorSpec spec_of(const NamedTensor& item) {
  if (!item.tensor.defined()) {
    throw CheckpointError("cannot save '" + item.name + "': the tensor is undefined");
  }
  return {item.name, to_dtype(item.tensor.scalar_type()), item.tensor.sizes().vec()};
}

at::Tensor row_major_on_cpu(const at::Tensor& tensor) {
  return tensor.detach().resolve_conj().resolve_neg().to(at::kCPU).contiguous();
}

// A view of the mapping; a copy where a foreign writer left the data unaligned.
at::Tensor view_of(const StoredTensor& stored, const std::shared_ptr<const FileContent>& content) {
  const auto dtype = to_scalar_type(stored.dtype);
  if (stored.bytes.empty()) return at::empty(stored.shape, dtype);
  if (stored.aligned()) {
    return at::from_blob(
        const_cast<std::byte*>(stored.bytes.data()), stored.shape, [content](void*) {}, dtype);
  }
  at::Tensor tensor = at::empty(stored.shape, dtype);
  std::memcpy(tensor.mutable_data_ptr(), stored.bytes.data(), stored.bytes.size());
  return tensor;
}

void stream_to(const at::Tensor& tensor, const ByteSink& sink) {
  const at::Tensor plain = row_major_on_cpu(tensor);
  sink({static_cast<const std::byte*>(plain.const_data_ptr()), plain.nbytes()});
}

}  // namespace

std::vector<WeightSource> weight_sources(const std::vector<NamedTensor>& tensors) {
  std::vector<WeightSource> sources;
  for (const auto& item : tensors)
    sources.push_back(
        {spec_of(item), [tensor = item.tensor](const ByteSink& sink) { stream_to(tensor, sink); }});
  return sources;
}

void save_tensors(const std::vector<NamedTensor>& tensors, const std::filesystem::path& file,
                  FileSystem& files, const AtomicFileOptions& options) {
  write_weights_file(weight_sources(tensors), file, {.file = options}, files);
}

std::vector<NamedTensor> map_tensors(const std::filesystem::path& file, FileSystem& files) {
  const auto weights = SafetensorsFile::open(file, files);
  std::vector<NamedTensor> tensors;
  for (const auto& stored : weights.tensors())
    tensors.push_back({stored.name, view_of(stored, weights.content())});
  return tensors;
}

std::vector<NamedTensor> load_tensors(const std::filesystem::path& file, FileSystem& files) {
  auto tensors = map_tensors(file, files);
  for (auto& [name, tensor] : tensors) tensor = tensor.clone();
  return tensors;
}

}  // namespace accelerate
