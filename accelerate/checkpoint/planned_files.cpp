#include "accelerate/checkpoint/planned_files.h"

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "accelerate/base/bytes.h"
#include "accelerate/base/checksum.h"
#include "accelerate/base/error.h"
#include "accelerate/base/write_behind.h"
#include "accelerate/tensor/scalar_type.h"
#include "accelerate/tensor/weights.h"

namespace accelerate {
namespace {

// A new file that grows at its end. Bytes are checksummed immediately before they are copied for
// the writing thread, so that they are read from memory once.
class ChecksummedFile {
 public:
  /// Reserves `size_bytes` on disk.
  ChecksummedFile(FileSystem& files, const std::filesystem::path& path, std::uint64_t size_bytes,
                  const ByteCounter& counter)
      : file_(files.create(path)),
        behind_(*file_, {.size_bytes = size_bytes, .counter = counter}) {}

  void write(std::string_view bytes) {
    constexpr std::size_t kPieceBytes = std::size_t{256} << 10;  // Fits into the processor's cache.
    for (; !bytes.empty(); bytes.remove_prefix(std::min(kPieceBytes, bytes.size()))) {
      const auto piece = bytes.substr(0, kPieceBytes);
      checksum_.update(piece);
      behind_.append(piece);
      size_bytes_ += piece.size();
    }
  }

  /// Syncs and closes the file.
  ManifestFile finish(std::string name) {
    behind_.finish();
    file_->sync();
    file_->close();
    return {std::move(name), size_bytes_, checksum_.value()};
  }

 private:
  std::unique_ptr<WritableFile> file_;
  WriteBehind behind_;
  Checksum checksum_;
  std::uint64_t size_bytes_ = 0;
};

ManifestFile write_text(FileSystem& files, const std::filesystem::path& path,
                        const PlannedFile& planned, const ByteCounter& counter) {
  ChecksummedFile file(files, path, planned.text.size(), counter);
  file.write(planned.text);
  return file.finish(planned.name);
}

ManifestFile write_tensors(FileSystem& files, const std::filesystem::path& path,
                           const PlannedFile& planned, const ByteCounter& counter) {
  std::vector<TensorSpec> specs;
  std::map<std::string_view, const NamedTensor*> by_name;
  for (const auto& item : planned.tensors) {
    specs.push_back(spec_of(planned, item));
    by_name.emplace(item.name, &item);
  }
  const SafetensorsLayout layout(std::move(specs), planned.metadata);
  ChecksummedFile file(files, path, layout.file_bytes(), counter);
  file.write(layout.header());
  for (const auto& spec : layout.tensors()) {
    for_each_piece(data_of(planned, *by_name.at(spec.name)),
                   [&](std::span<const std::byte> bytes) { file.write(detail::byte_text(bytes)); });
  }
  return file.finish(planned.name);
}

// Returns 0 for a tensor without elements in memory, which writing refuses by name.
std::uint64_t bytes_of(const at::Tensor& tensor) {
  const bool plain = tensor.defined() && !tensor.is_nested() && tensor.layout() == at::kStrided;
  return plain ? tensor.nbytes() : 0;
}

}  // namespace

TensorSpec spec_of(const PlannedFile& planned, const NamedTensor& item) {
  if (!planned.fetch || !item.tensor.is_meta()) return tensor_specs({item}).front();
  const auto type = item.tensor.scalar_type();
  return {item.name, to_dtype(type), to_stored_shape(type, item.tensor.sizes().vec())};
}

at::Tensor data_of(const PlannedFile& planned, const NamedTensor& item) {
  return planned.fetch && item.tensor.is_meta() ? planned.fetch(item.name) : item.tensor;
}

std::uint64_t planned_bytes(const std::vector<PlannedFile>& planned) {
  std::uint64_t bytes = 0;
  for (const auto& file : planned) {
    bytes += file.text.size();
    for (const auto& item : file.tensors) bytes += bytes_of(item.tensor);
  }
  return bytes;
}

std::vector<ManifestFile> write_planned(FileSystem& files, const std::filesystem::path& folder,
                                        const std::vector<PlannedFile>& planned,
                                        const ByteCounter& counter) {
  std::vector<ManifestFile> written;
  for (const auto& file : planned) {
    const auto path = folder / file.name;
    try {
      written.push_back(file.text.empty() ? write_tensors(files, path, file, counter)
                                          : write_text(files, path, file, counter));
    } catch (const Error&) {
      throw_with_context<CheckpointError>("cannot write " + path.string());
    }
  }
  return written;
}

void save_weights(const PlannedFile& planned, const std::filesystem::path& folder,
                  const WriteWeightsOptions& options) {
  std::vector<WeightSource> sources;
  for (const auto& item : planned.tensors) {
    const auto stream = [&planned, &item](const ByteSink& sink) {
      for_each_piece(data_of(planned, item), sink);
    };
    sources.push_back({spec_of(planned, item), stream});
  }
  write_weights(sources, folder, options);
}

}  // namespace accelerate
