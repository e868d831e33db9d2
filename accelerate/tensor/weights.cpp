#include "accelerate/tensor/weights.h"

#include <ATen/ATen.h>

#include <cstring>
#include <map>
#include <span>

#include "accelerate/base/error.h"
#include "accelerate/formats/safetensors.h"
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

at::Tensor read(const StoredTensor& stored) {
  at::Tensor tensor = at::empty(stored.shape, to_scalar_type(stored.dtype));
  if (!stored.bytes.empty())
    std::memcpy(tensor.mutable_data_ptr(), stored.bytes.data(), stored.bytes.size());
  return tensor;
}

}  // namespace

void save_tensors(const std::vector<NamedTensor>& tensors, const std::filesystem::path& file,
                  FileSystem& files, const AtomicFileOptions& options) {
  std::vector<TensorSpec> specs;
  std::map<std::string, at::Tensor> by_name;
  for (const auto& item : tensors) {
    specs.push_back(spec_of(item));
    by_name.emplace(item.name, item.tensor);
  }
  if (file.has_parent_path()) {
    try {
      files.create_directories(file.parent_path());
    } catch (const Error&) {
      throw_with_context<CheckpointError>("cannot make the folder for " + file.string());
    }
  }
  SafetensorsWriter writer(files, file, std::move(specs),
                           {.metadata = {{"format", "pt"}}, .file = options});
  for (const auto& spec : writer.tensors()) {
    const at::Tensor tensor = row_major_on_cpu(by_name.at(spec.name));
    writer.append(
        std::span(static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()));
  }
  writer.commit();
}

std::vector<NamedTensor> load_tensors(const std::filesystem::path& file, FileSystem& files) {
  const auto weights = SafetensorsFile::open(file, files);
  std::vector<NamedTensor> tensors;
  for (const auto& stored : weights.tensors()) tensors.push_back({stored.name, read(stored)});
  return tensors;
}

}  // namespace accelerate
