// safetensors files: named tensors behind a small JSON header. docs/formats/safetensors.md
// describes the format byte by byte.
//
// Reading trusts nothing. Every rule of the format is checked, with checked arithmetic, before
// anything is allocated. A file that breaks a rule is refused with a CheckpointError that names the
// file, the tensor, what was found and the likely cause.
//
// Reading maps the file and copies no data; writing does not copy data either. The bytes written
// equal those of the reference writer (Rust and Python).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "accelerate/base/file_system.h"
#include "accelerate/formats/safetensors/byte_stream.h"
#include "accelerate/formats/safetensors/safetensors_layout.h"
#include "accelerate/formats/safetensors/tensor_file.h"

namespace accelerate {

/// A tensor in a file, or one to be written. `bytes`: its elements, row-major, little-endian.
struct StoredTensor : TensorSpec {
  std::span<const std::byte> bytes;

  /// Whether the elements may be read in place. If not, copy them with memcpy first: other writers
  /// may not have padded the header.
  [[nodiscard]] bool aligned() const;
};

/// An open file. Copies share the mapping. It is released when the last copy and the last content()
/// are gone.
/// Threads: safe to read from several threads at the same time.
class SafetensorsFile {
 public:
  /// Maps `path` and checks it. Throws CheckpointError. Cost: the header is read, the data is not.
  [[nodiscard]] static SafetensorsFile open(const std::filesystem::path& path,
                                            FileSystem& files = real_file_system());

  /// The tensors in the order of their bytes in the file. Their `bytes` are valid while content()
  /// is held.
  [[nodiscard]] const std::vector<StoredTensor>& tensors() const& { return tensors_; }
  /// Deleted for temporaries: a loop over the tensors of one would dangle.
  const std::vector<StoredTensor>& tensors() && = delete;
  /// Returns the tensor called `name`; nullptr if there is none. Cost: logarithmic.
  [[nodiscard]] const StoredTensor* find(std::string_view name) const;
  /// Like find(), but throws CheckpointError, with the most similar name, if there is no such
  /// tensor.
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
  AtomicFileOptions file = {};        ///< Says what survives a power cut.
};

/// Writes a file tensor by tensor, so that data on a device or in shards need not be in memory all
/// at once:
///
///   SafetensorsWriter writer(real_file_system(), path, specs, {.metadata = {{"format", "pt"}}});
///   for (const TensorSpec& spec : writer.tensors()) writer.append(bytes_of_tensor(spec.name));
///   writer.commit();
///
/// commit() makes the complete file appear at `path`. Without commit() nothing is left behind. The
/// constructor allocates the file's disk space, so that a full disk is known early; this also makes
/// writing faster.
class SafetensorsWriter {
 public:
  /// Throws UsageError for a name that appears twice, is not UTF-8, is too long or is
  /// `__metadata__`. Throws UsageError too for a negative dimension, a size that overflows, or a
  /// header beyond the limits. Throws CheckpointError when the file cannot be created.
  SafetensorsWriter(FileSystem& files, const std::filesystem::path& path,
                    std::vector<TensorSpec> specs, const SafetensorsWriteOptions& options = {});

  /// The specs in the order in which append() wants the data: by DType, last type first, then by
  /// name.
  [[nodiscard]] const std::vector<TensorSpec>& tensors() const { return file_.tensors(); }
  /// Appends the bytes of the next tensor. Throws UsageError when their number does not match the
  /// spec, CheckpointError when they cannot be written.
  void append(std::span<const std::byte> bytes);
  /// Appends the next tensor in pieces. Exceptions of `source` pass through; after one, the file
  /// can only be dropped.
  void append(const ByteSource& source);
  /// Completes the file. Throws UsageError when a tensor is missing, CheckpointError when the file
  /// cannot be completed.
  void commit();

 private:
  SafetensorsWriter(FileSystem& files, const std::filesystem::path& path,
                    const SafetensorsLayout& layout, AtomicFileOptions options);

  detail::TensorFile file_;
};

/// Writes all `tensors`, given in any order, into the file at `path`. Throws as SafetensorsWriter
/// does.
void write_safetensors(FileSystem& files, const std::filesystem::path& path,
                       const std::vector<StoredTensor>& tensors,
                       const SafetensorsWriteOptions& options = {});

}  // namespace accelerate
