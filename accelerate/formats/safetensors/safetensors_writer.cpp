#include <utility>

#include "accelerate/formats/safetensors/safetensors.h"
#include "accelerate/formats/safetensors/safetensors_header.h"

namespace accelerate {
namespace {

using detail::tensor_label;

// Runs one step of writing. If it fails, adds to the error what the file was for.
template <typename Step>
auto saving(const std::filesystem::path& path, Step&& step) {
  try {
    return step();
  } catch (const FileError&) {
    throw_with_context<CheckpointError>("cannot save tensors to '" + path.string() + "'");
  }
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(FileSystem& files, std::filesystem::path path,
                                     std::vector<TensorSpec> specs, SafetensorsWriteOptions options)
    : path_(std::move(path)), layout_(std::move(specs), options.metadata) {
  saving(path_, [&] {
    file_ = std::make_unique<AtomicFile>(files, path_, options.file);
    behind_ = std::make_unique<WriteBehind>(
        file_->file(),
        WriteBehind::Options{.size_bytes = layout_.file_bytes(), .durable = options.file.durable});
    behind_->append(layout_.header());
  });
}

void SafetensorsWriter::append(std::span<const std::byte> bytes) {
  append([bytes](const ByteSink& sink) { sink(bytes); });
}

void SafetensorsWriter::append(const ByteSource& source) {
  if (next_ == tensors().size()) {
    throw UsageError("'" + path_.string() + "' has all its " + std::to_string(next_) +
                     " tensors; there is no place for one more");
  }
  const std::uint64_t size = layout_.size_bytes(next_);
  std::uint64_t given = 0;
  source([&](std::span<const std::byte> piece) {
    given += piece.size();
    if (given <= size) saving(path_, [&] { behind_->append(text_of(piece)); });
  });
  if (given != size) {
    throw UsageError("cannot save " + tensor_label(tensors()[next_].name) +
                     ": its dtype and shape take " + std::to_string(size) + " bytes, " +
                     std::to_string(given) + " were given");
  }
  if (++next_ == tensors().size()) flush();  // Frees the buffers before commit().
}

void SafetensorsWriter::flush() {
  saving(path_, [&] { behind_->finish(); });
  behind_.reset();
}

void SafetensorsWriter::commit() {
  if (next_ < tensors().size()) {
    throw UsageError("'" + path_.string() + "' cannot be completed: " +
                     tensor_label(tensors()[next_].name) + " was announced and not appended");
  }
  if (behind_) flush();
  saving(path_, [&] { file_->commit(); });
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
    file_.write_at(layout_.offset_bytes(tensor) + offset_bytes, text_of(bytes));
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
                       const std::vector<StoredTensor>& tensors, SafetensorsWriteOptions options) {
  SafetensorsWriter writer(files, path, {tensors.begin(), tensors.end()}, std::move(options));
  std::map<std::string_view, std::span<const std::byte>> bytes;
  for (const StoredTensor& tensor : tensors) bytes.emplace(tensor.name, tensor.bytes);
  for (const TensorSpec& spec : writer.tensors()) writer.append(bytes.at(spec.name));
  writer.commit();
}

}  // namespace accelerate
