#include "accelerate/checkpoint/planned_files.h"

#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "accelerate/base/checksum.h"
#include "accelerate/base/error.h"
#include "accelerate/tensor/weights.h"

namespace accelerate {
namespace {

// A new file that grows at its end. A piece is checksummed just before it is written, so that it is
// read from memory once; small ones are gathered. The disk begins with what is written while the
// rest still comes.
class ChecksummedFile {
 public:
  ChecksummedFile(FileSystem& files, const std::filesystem::path& path, std::uint64_t size_bytes,
                  const ByteCounter& counter)
      : file_(files.create(path)), counter_(counter) {
    file_->reserve(size_bytes);
    pending_.reserve(kPieceBytes);
  }

  void write(std::string_view bytes) {
    while (!bytes.empty()) {
      if (pending_.empty() && bytes.size() >= kPieceBytes) {
        put(bytes.substr(0, kPieceBytes));
        bytes.remove_prefix(kPieceBytes);
        continue;
      }
      const auto part = bytes.substr(0, kPieceBytes - pending_.size());
      pending_ += part;
      bytes.remove_prefix(part.size());
      if (pending_.size() == kPieceBytes) flush();
    }
  }

  /// Syncs and closes it.
  ManifestFile finish(std::string name) {
    flush();
    file_->sync();
    file_->close();
    return {std::move(name), written_, checksum_.value()};
  }

 private:
  static constexpr std::size_t kPieceBytes = std::size_t{1} << 20;  // Stays in the cache.
  static constexpr std::uint64_t kWritebackBytes = std::uint64_t{8} << 20;

  void flush() {
    put(pending_);
    pending_.clear();
  }

  void put(std::string_view bytes) {
    if (bytes.empty()) return;
    checksum_.update(bytes);
    file_->write(bytes);
    written_ += bytes.size();
    if (written_ - begun_ >= kWritebackBytes) {
      file_->start_writeback(begun_, written_ - begun_);
      begun_ = written_;
    }
    if (counter_) counter_(bytes.size());
  }

  std::unique_ptr<WritableFile> file_;
  const ByteCounter& counter_;
  Checksum checksum_;
  std::string pending_;
  std::uint64_t written_ = 0, begun_ = 0;  // Begun: on its way to the disk.
};

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

ManifestFile write_text(FileSystem& files, const std::filesystem::path& path,
                        const PlannedFile& planned, const ByteCounter& counter) {
  ChecksummedFile file(files, path, planned.text.size(), counter);
  file.write(planned.text);
  return file.finish(planned.name);
}

ManifestFile write_tensors(FileSystem& files, const std::filesystem::path& path,
                           const PlannedFile& planned, const ByteCounter& counter) {
  const SafetensorsLayout layout(tensor_specs(planned.tensors), planned.metadata);
  std::map<std::string_view, const at::Tensor*> by_name;
  for (const auto& [name, tensor] : planned.tensors) by_name.emplace(name, &tensor);
  ChecksummedFile file(files, path, layout.file_bytes(), counter);
  file.write(layout.header());
  for (const auto& spec : layout.tensors()) {
    for_each_piece(*by_name.at(spec.name),
                   [&](std::span<const std::byte> bytes) { file.write(text_of(bytes)); });
  }
  return file.finish(planned.name);
}

}  // namespace

std::uint64_t planned_bytes(const std::vector<PlannedFile>& planned) {
  std::uint64_t bytes = 0;
  for (const auto& file : planned) {
    bytes += file.text.size();
    for (const auto& item : file.tensors) bytes += item.tensor.nbytes();
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

}  // namespace accelerate
