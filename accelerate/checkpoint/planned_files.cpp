#include "accelerate/checkpoint/planned_files.h"

#include <algorithm>
#include <cstring>
#include <future>
#include <map>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <utility>

#include "accelerate/base/blocked_signals.h"
#include "accelerate/base/checksum.h"
#include "accelerate/base/error.h"
#include "accelerate/tensor/weights.h"

namespace accelerate {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{8} << 20;

// One is filled while the other one is written.
class Buffer {
 public:
  Buffer()
      : data_(static_cast<char*>(
            ::operator new(kBufferBytes, std::align_val_t(WritableFile::kDirectAlignment)))) {}

  /// Takes what it has room for; returns how much that is.
  std::size_t append(std::string_view bytes) {
    const std::size_t taken = std::min(bytes.size(), kBufferBytes - size_);
    std::memcpy(data_.get() + size_, bytes.data(), taken);
    size_ += taken;
    return taken;
  }
  void clear() { size_ = 0; }
  [[nodiscard]] bool is_full() const { return size_ == kBufferBytes; }
  [[nodiscard]] std::string_view content() const { return {data_.get(), size_}; }

 private:
  struct Free {
    void operator()(char* data) const {
      ::operator delete(data, std::align_val_t(WritableFile::kDirectAlignment));
    }
  };

  std::unique_ptr<char, Free> data_;
  std::size_t size_ = 0;
};

struct Buffers {
  Buffer filling, writing;
};

// A new file that grows at its end. Bytes are copied into a buffer and checksummed while they are
// in the cache; a thread writes one buffer while the other one is filled, past the page cache where
// that can be: writing to it costs a second copy into pages that have to be found first, and takes
// them from what the training has cached.
class ChecksummedFile {
 public:
  ChecksummedFile(FileSystem& files, const std::filesystem::path& path, Buffers& buffers,
                  const ByteCounter& counter)
      : file_(files.create(path)), buffers_(buffers), counter_(counter) {}

  /// Takes the room of the whole file.
  void reserve(std::uint64_t size_bytes) {
    file_->reserve(size_bytes);
    if (size_bytes >= kDirectBytes) file_->bypass_cache();
  }

  void write(std::string_view bytes) {
    while (!bytes.empty()) {
      const std::size_t taken = buffers_.filling.append(bytes.substr(0, kPieceBytes));
      checksum_.update(bytes.substr(0, taken));
      bytes.remove_prefix(taken);
      if (buffers_.filling.is_full()) begin_write();
    }
  }

  /// Syncs and closes it.
  ManifestFile finish(std::string name) {
    await_write();
    put(buffers_.filling);
    file_->sync();
    file_->close();
    return {std::move(name), written_, checksum_.value()};
  }

 private:
  static constexpr std::size_t kPieceBytes = std::size_t{256} << 10;      // Stays in the cache.
  static constexpr std::uint64_t kDirectBytes = std::uint64_t{32} << 20;  // Smaller: not worth it.

  void begin_write() {
    await_write();
    std::swap(buffers_.filling, buffers_.writing);
    const BlockedSignals blocked;
    write_ = std::async(std::launch::async, [this] { put(buffers_.writing); });
  }

  void await_write() {
    if (write_.valid()) write_.get();
  }

  // Where the page cache was not bypassed the disk is told to begin.
  void put(Buffer& buffer) {
    const auto bytes = buffer.content();
    file_->write(bytes);
    file_->start_writeback(written_, bytes.size());
    written_ += bytes.size();
    if (counter_) counter_(bytes.size());
    buffer.clear();
  }

  std::unique_ptr<WritableFile> file_;
  Buffers& buffers_;
  const ByteCounter& counter_;
  Checksum checksum_;
  std::uint64_t written_ = 0;
  std::future<void> write_;  // Last: it is waited for while all that it uses is there.
};

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void write_tensors(ChecksummedFile& file, const PlannedFile& planned) {
  const SafetensorsLayout layout(tensor_specs(planned.tensors), planned.metadata);
  std::map<std::string_view, const at::Tensor*> by_name;
  for (const auto& [name, tensor] : planned.tensors) by_name.emplace(name, &tensor);
  file.reserve(layout.file_bytes());
  file.write(layout.header());
  for (const auto& spec : layout.tensors()) {
    for_each_piece(*by_name.at(spec.name),
                   [&](std::span<const std::byte> bytes) { file.write(text_of(bytes)); });
  }
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
  Buffers buffers;
  for (const auto& one : planned) {
    const auto path = folder / one.name;
    try {
      ChecksummedFile file(files, path, buffers, counter);
      if (one.text.empty()) {
        write_tensors(file, one);
      } else {
        file.write(one.text);
      }
      written.push_back(file.finish(one.name));
    } catch (const Error&) {
      throw_with_context<CheckpointError>("cannot write " + path.string());
    }
  }
  return written;
}

}  // namespace accelerate
