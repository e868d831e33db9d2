// safetensors files: named tensors behind a small JSON header. The format, byte by byte, is in
// docs/formats/safetensors.md.
//
// Reading trusts nothing: every rule of the format is checked, with checked arithmetic, before
// anything is allocated by it, and a file that breaks one is refused with a CheckpointError that
// names the file, the tensor, what was found and the likely cause. Reading maps the file and copies
// no data; writing copies none either. Bytes written equal those of the reference (Rust and Python)
// writer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/base/file_system.h"
#include "accelerate/formats/dtype.h"

namespace accelerate {

/// Our caps on what a header may ask for; files beyond them are refused, and not written.
struct SafetensorsLimits {
  static constexpr std::uint64_t kHeaderBytes = 100'000'000;  ///< As the reference reader's.
  static constexpr std::size_t kTensors = 1'000'000;
  static constexpr std::size_t kNameBytes = 4096;
  static constexpr std::size_t kRank = 32;
};

/// A tensor's name, element type and shape.
struct TensorSpec {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;  ///< {} for a scalar; a dimension may be 0.
};

/// A tensor in a file, or one to be written: `bytes` are its elements, row-major, little-endian.
struct StoredTensor : TensorSpec {
  std::span<const std::byte> bytes;

  /// Whether the elements may be read in place. A foreign writer may not have padded its header:
  /// then copy them with memcpy first.
  [[nodiscard]] bool aligned() const;
};

using SafetensorsMetadata = std::map<std::string, std::string>;

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
  bool durable = true;                ///< See AtomicFileOptions.
};

/// Writes a file tensor by tensor, so that data on a device or in shards need not be in memory all
/// at once:
///
///   SafetensorsWriter writer(real_file_system(), path, specs, {.metadata = {{"format", "pt"}}});
///   for (const TensorSpec& spec : writer.tensors()) writer.append(bytes_of_tensor(spec.name));
///   writer.commit();
///
/// The file appears at `path` in commit(), whole; without it nothing is left behind.
class SafetensorsWriter {
 public:
  /// Throws UsageError when the specs cannot be a file: a name twice, no UTF-8, too long or
  /// `__metadata__`; a negative dimension; a size that overflows; a header beyond the limits.
  /// Throws CheckpointError when the file cannot be made.
  SafetensorsWriter(FileSystem& files, std::filesystem::path path, std::vector<TensorSpec> specs,
                    SafetensorsWriteOptions options = {});

  /// The specs in the order in which append() wants the data: by DType, last first, then by name.
  [[nodiscard]] const std::vector<TensorSpec>& tensors() const { return specs_; }
  /// The bytes of the next tensor. Throws UsageError when their number is not that of its spec,
  /// CheckpointError when they cannot be written.
  void append(std::span<const std::byte> bytes);
  /// Throws UsageError when a tensor is missing, CheckpointError when the file cannot be completed.
  void commit();

 private:
  void write(std::string_view bytes);
  void flush();

  std::filesystem::path path_;
  std::vector<TensorSpec> specs_;
  std::size_t next_ = 0;
  std::string pending_;  // Small tensors, gathered so as to write them together.
  std::unique_ptr<AtomicFile> file_;
};

/// Writes all `tensors`, in any order given, into the file at `path`. Throws as SafetensorsWriter
/// does.
void write_safetensors(FileSystem& files, const std::filesystem::path& path,
                       const std::vector<StoredTensor>& tensors,
                       SafetensorsWriteOptions options = {});

}  // namespace accelerate
