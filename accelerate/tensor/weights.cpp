#include "accelerate/tensor/weights.h"

#include <ATen/ATen.h>

#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string_view>
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

SafetensorsWriter writer_of(const std::vector<NamedTensor>& tensors,
                            const std::filesystem::path& file, FileSystem& files,
                            const AtomicFileOptions& options) {
  std::vector<TensorSpec> specs;
  for (const auto& item : tensors) specs.push_back(spec_of(item));
  if (file.has_parent_path()) {
    try {
      files.create_directories(file.parent_path());
    } catch (const Error&) {
      throw_with_context<CheckpointError>("cannot make the folder for " + file.string());
    }
  }
  return {files, file, std::move(specs), {.metadata = {{"format", "pt"}}, .file = options}};
}

}  // namespace

TensorFile::TensorFile(const std::vector<NamedTensor>& tensors, const std::filesystem::path& file,
                       FileSystem& files, const AtomicFileOptions& options)
    : writer_(writer_of(tensors, file, files, options)) {
  std::map<std::string_view, at::Tensor> by_name;
  for (const auto& item : tensors) by_name.emplace(item.name, item.tensor);
  for (const auto& spec : writer_.tensors()) {
    const at::Tensor tensor = row_major_on_cpu(by_name.at(spec.name));
    writer_.append(
        std::span(static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()));
  }
}

void save_tensors(const std::vector<NamedTensor>& tensors, const std::filesystem::path& file,
                  FileSystem& files, const AtomicFileOptions& options) {
  TensorFile(tensors, file, files, options).commit();
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
