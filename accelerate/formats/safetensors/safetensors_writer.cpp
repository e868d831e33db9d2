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

SafetensorsFiller::SafetensorsFiller(SafetensorsLayout layout, WritableFile& file)
    : layout_(std::move(layout)), file_(file), written_(layout_.tensors().size()) {
  try {
    file_.reserve(layout_.file_bytes());
    file_.write_at(0, layout_.header());
  } catch (const FileError&) {
    throw_with_context<CheckpointError>("cannot begin a file of " +
                                        std::to_string(layout_.tensors().size()) + " tensors, " +
                                        std::to_string(layout_.file_bytes()) + " bytes");
  }
}

void SafetensorsFiller::write(std::size_t tensor, std::uint64_t offset_bytes,
                              std::span<const std::byte> bytes) {
  const std::uint64_t size = layout_.size_bytes(tensor);
  const auto label = [&] { return tensor_label(layout_.tensors()[tensor].name); };
  if (offset_bytes > size || bytes.size() > size - offset_bytes) {
    throw UsageError("cannot save " + label() + ": it has " + std::to_string(size) +
                     " bytes, and " + std::to_string(bytes.size()) + " from byte " +
                     std::to_string(offset_bytes) + " on were given");
  }
  try {
    file_.write_at(layout_.offset_bytes(tensor) + offset_bytes, byte_text(bytes));
  } catch (const FileError&) {
    throw_with_context<CheckpointError>("cannot save " + label());
  }
  written_[tensor] += bytes.size();
}

void SafetensorsFiller::finish() const {
  for (std::size_t i = 0; i < written_.size(); ++i) {
    if (written_[i] == layout_.size_bytes(i)) continue;
    throw UsageError("a file of tensors cannot be completed: of the " +
                     std::to_string(layout_.size_bytes(i)) + " bytes of " +
                     tensor_label(layout_.tensors()[i].name) + " " + std::to_string(written_[i]) +
                     " were written");
  }
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
