#include <utility>

#include "accelerate/base/bytes.h"
#include "accelerate/formats/safetensors/safetensors.h"
#include "accelerate/formats/safetensors/safetensors_header.h"

namespace accelerate {

using detail::byte_text;
using detail::tensor_label;

SafetensorsWriter::SafetensorsWriter(FileSystem& files, const std::filesystem::path& path,
                                     std::vector<TensorSpec> specs,
                                     const SafetensorsWriteOptions& options)
    : SafetensorsWriter(files, path, SafetensorsLayout(std::move(specs), options.metadata),
                        options.file) {}

SafetensorsWriter::SafetensorsWriter(FileSystem& files, const std::filesystem::path& path,
                                     const SafetensorsLayout& layout, AtomicFileOptions options)
    : file_(files, path, layout.tensors(), layout.file_bytes(), options) {
  file_.append(layout.header());
}

void SafetensorsWriter::append(std::span<const std::byte> bytes) {
  append([bytes](const ByteSink& sink) { sink(bytes); });
}

void SafetensorsWriter::append(const ByteSource& source) {
  file_.append_tensor(source);
  if (file_.has_all()) file_.finish();  // Frees the buffers before commit().
}

void SafetensorsWriter::commit() {
  file_.commit();
}

void write_safetensors(FileSystem& files, const std::filesystem::path& path,
                       const std::vector<StoredTensor>& tensors,
                       const SafetensorsWriteOptions& options) {
  SafetensorsWriter writer(files, path, {tensors.begin(), tensors.end()}, options);
  std::map<std::string_view, std::span<const std::byte>> bytes;
  for (const StoredTensor& tensor : tensors) bytes.emplace(tensor.name, tensor.bytes);
  for (const TensorSpec& spec : writer.tensors()) writer.append(bytes.at(spec.name));
  writer.commit();
}

}  // namespace accelerate
