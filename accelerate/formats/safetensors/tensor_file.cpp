#include "accelerate/formats/safetensors/tensor_file.h"

#include <span>
#include <string>
#include <utility>

#include "accelerate/base/bytes.h"
#include "accelerate/base/error.h"
#include "accelerate/formats/safetensors/safetensors_header.h"

namespace accelerate::detail {
namespace {

// Runs one step of writing. If it fails, adds to the error what the file was for.
template <typename Step>
void saving(const std::filesystem::path& path, Step&& step) {
  try {
    step();
  } catch (const FileError&) {
    throw_with_context<CheckpointError>("cannot save tensors to '" + path.string() + "'");
  }
}

}  // namespace

TensorFile::TensorFile(FileSystem& files, std::filesystem::path path,
                       std::vector<TensorSpec> tensors, std::uint64_t file_bytes,
                       AtomicFileOptions options)
    : path_(std::move(path)), tensors_(std::move(tensors)) {
  saving(path_, [&] {
    file_ = std::make_unique<AtomicFile>(files, path_, options);
    behind_ = std::make_unique<WriteBehind>(
        file_->file(), WriteBehind::Options{.size_bytes = file_bytes, .durable = options.durable});
  });
}

void TensorFile::append(std::string_view bytes) {
  saving(path_, [&] { behind_->append(bytes); });
}

void TensorFile::append_tensor(const ByteSource& source, const ByteSink& seen) {
  if (has_all()) {
    throw UsageError("'" + path_.string() + "' has all its " + std::to_string(next_) +
                     " tensors; there is no place for one more");
  }
  const TensorSpec& spec = tensors_[next_];
  const std::uint64_t size = bytes_of(spec.dtype, spec.shape).value();
  std::uint64_t given = 0;
  source([&](std::span<const std::byte> piece) {
    given += piece.size();
    if (given > size) return;
    append(byte_text(piece));
    if (seen) seen(piece);
  });
  if (given != size) {
    throw UsageError("cannot save " + tensor_label(spec.name) + ": its dtype and shape take " +
                     std::to_string(size) + " bytes, " + std::to_string(given) + " were given");
  }
  ++next_;
}

void TensorFile::finish() {
  if (behind_) saving(path_, [&] { behind_->finish(); });
  behind_.reset();
}

void TensorFile::commit() {
  if (!has_all()) {
    throw UsageError("'" + path_.string() + "' cannot be completed: " +
                     tensor_label(tensors_[next_].name) + " was announced and not appended");
  }
  finish();
  saving(path_, [&] { file_->commit(); });
}

}  // namespace accelerate::detail
