// safetensors files: named tensors behind a small JSON header. The format, byte by byte, is in
// docs/formats/safetensors.md.
//
// Reading trusts nothing: every rule of the format is checked, with checked arithmetic, before
// anything is allocated by it, and a file that breaks one is refused with a CheckpointError that
// names the file, the tensor, what was found and the likely cause. Reading maps the file and copies
// no data; writing copies none either. Bytes written equal those of the reference (Rust and Python)
// writer.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/base/file_system.h"
#include "accelerate/base/write_behind.h"
#include "accelerate/formats/safetensors/byte_stream.h"
#include "accelerate/formats/safetensors/safetensors_layout.h"

namespace accelerate {

/// A tensor in a file, or one to be written: `bytes` are its elements, row-major, little-endian.
struct StoredTensor : TensorSpec {
  std::span<const std::byte> bytes;

  /// Whether the elements may be read in place. A foreign writer may not have padded its header:
  /// then copy them with memcpy first.
  [[nodiscard]] bool aligned() const;
};

/// An open file. Copies share the mapping, which is let go with the last of them and of content().
/// Threads: safe to read from several at once.
class SafetensorsFile {
 public:
  /// Maps `path` and checks it. Throws CheckpointError. Cost: the header is read, the data is not.
  [[nodiscard]] static SafetensorsFile open(const std::filesystem::path& path,
                                            FileSystem& files = real_file_system());

  /// In the order of their bytes in the file. `bytes` are valid while content() is held.
  [[nodiscard]] const std::vector<StoredTensor>& tensors() const& { return tensors_; }
  /// A file that lives only as long as the expression would leave a loop over its tensors dangling.
  const std::vector<StoredTensor>& tensors() && = delete;
  /// The tensor called `name`, nullptr when there is none. Cost: logarithmic.
  [[nodiscard]] const StoredTensor* find(std::string_view name) const;
  /// As find, but throws CheckpointError, with the nearest name there is, when there is none.
  [[nodiscard]] const StoredTensor& at(std::string_view name) const;
  /// The `__metadata__` of the header, e.g. {"format", "pt"}.
  [[nodiscard]] const SafetensorsMetadata& metadata() const { return metadata_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Keeps the bytes of the tensors alive: hold it as long as anything points into them.
  [[nodiscard]] const std::shared_ptr<const FileContent>& content() const { return content_; }

 private:
  SafetensorsFile() = default;

  std::filesystem::path path_;
  std::shared_ptr<const FileContent> content_;
  std::vector<StoredTensor> tensors_;
  std::vector<std::uint32_t> by_name_;  // Indices into tensors_, sorted by name.
  SafetensorsMetadata metadata_;
};

struct SafetensorsWriteOptions {
  SafetensorsMetadata metadata = {};  ///< Left out of the header when empty.
  AtomicFileOptions file = {};        ///< What survives a power cut.
};

/// Writes a file tensor by tensor, so that data on a device or in shards need not be in memory all
/// at once:
///
///   SafetensorsWriter writer(real_file_system(), path, specs, {.metadata = {{"format", "pt"}}});
///   for (const TensorSpec& spec : writer.tensors()) writer.append(bytes_of_tensor(spec.name));
///   writer.commit();
///
/// The file appears at `path` in commit(), whole; without it nothing is left behind. Its room is
/// taken at the start, so that a full disk is known then; that also makes writing faster.
class SafetensorsWriter {
 public:
  /// Throws UsageError when the specs cannot be a file: a name twice, no UTF-8, too long or
  /// `__metadata__`; a negative dimension; a size that overflows; a header beyond the limits.
  /// Throws CheckpointError when the file cannot be made.
  SafetensorsWriter(FileSystem& files, std::filesystem::path path, std::vector<TensorSpec> specs,
                    SafetensorsWriteOptions options = {});

  /// The specs in the order in which append() wants the data: by DType, last first, then by name.
  [[nodiscard]] const std::vector<TensorSpec>& tensors() const { return layout_.tensors(); }
  /// The bytes of the next tensor. Throws UsageError when their number is not that of its spec,
  /// CheckpointError when they cannot be written.
  void append(std::span<const std::byte> bytes);
  /// The same in pieces. What `source` throws passes through; then the file can only be dropped.
  void append(const ByteSource& source);
  /// Throws UsageError when a tensor is missing, CheckpointError when the file cannot be completed.
  void commit();

 private:
  void flush();

  std::filesystem::path path_;
  SafetensorsLayout layout_;
  std::size_t next_ = 0;
  std::unique_ptr<AtomicFile> file_;
  std::unique_ptr<WriteBehind> behind_;  // Until the last tensor is written.
};

/// Fills one file with the tensors of a layout from several threads, in any order, in pieces:
///
///   AtomicFile file(files, path);
///   SafetensorsFiller filler(layout, file.file());
///   …  filler.write(i, 0, bytes_of_tensor(i));  // From any thread.
///   filler.finish();
///   file.commit();
///
/// Errors of the file are CheckpointErrors.
class SafetensorsFiller {
 public:
  /// Takes the room of the whole file, so that a full disk is known now, and writes the header.
  /// `file` is new and empty, and outlives the filler.
  SafetensorsFiller(SafetensorsLayout layout, WritableFile& file);

  [[nodiscard]] const SafetensorsLayout& layout() const { return layout_; }
  /// Writes a piece of a tensor, `offset_bytes` after its beginning. Each byte is to be written
  /// once. Throws UsageError when the piece leaves the tensor. Threads: may be called from several.
  void write(std::size_t tensor, std::uint64_t offset_bytes, std::span<const std::byte> bytes);
  /// Throws UsageError, with a tensor's name, unless as many bytes as it has were written of each.
  void finish() const;

 private:
  SafetensorsLayout layout_;
  WritableFile& file_;
  std::vector<std::atomic<std::uint64_t>> written_;  // Bytes of each tensor.
};

/// Writes all `tensors`, in any order given, into the file at `path`. Throws as SafetensorsWriter
/// does.
void write_safetensors(FileSystem& files, const std::filesystem::path& path,
                       const std::vector<StoredTensor>& tensors,
                       SafetensorsWriteOptions options = {});

}  // namespace accelerate
