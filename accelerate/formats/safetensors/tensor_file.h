// A file of tensors that is written from its first byte to its last, whatever its format. Writers of
// a format say what stands between the tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include "accelerate/base/file_system.h"
#include "accelerate/base/write_behind.h"
#include "accelerate/formats/safetensors/byte_stream.h"
#include "accelerate/formats/safetensors/tensor_spec.h"

namespace accelerate::detail {

/// Throws CheckpointError when the file cannot be written.
class TensorFile {
 public:
  /// Allocates the disk space of `file_bytes`. `tensors`: what append_tensor() will be given, in
  /// this order; their sizes must be valid.
  TensorFile(FileSystem& files, std::filesystem::path path, std::vector<TensorSpec> tensors,
             std::uint64_t file_bytes, AtomicFileOptions options);

  [[nodiscard]] const std::vector<TensorSpec>& tensors() const { return tensors_; }
  /// Whether every tensor was appended.
  [[nodiscard]] bool has_all() const { return next_ == tensors_.size(); }
  /// Writes bytes that are no tensor's.
  void append(std::string_view bytes);
  /// Writes the next tensor and shows each piece to `seen`, if there is one. Throws UsageError when
  /// there is no next tensor, or when the bytes do not match its dtype and shape. Exceptions of
  /// `source` pass through; after one, the file can only be dropped.
  void append_tensor(const ByteSource& source, const ByteSink& seen = {});
  /// Returns when all bytes are written, and frees the buffers. Nothing can be appended afterwards.
  void finish();
  /// Puts the file in its place. Throws UsageError, with its name, if a tensor is missing.
  void commit();

 private:
  std::filesystem::path path_;
  std::vector<TensorSpec> tensors_;
  std::size_t next_ = 0;
  std::unique_ptr<AtomicFile> file_;
  std::unique_ptr<WriteBehind> behind_;  // Until finish().
};

}  // namespace accelerate::detail
