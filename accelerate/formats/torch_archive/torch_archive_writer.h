// Writes a state dict as torch.save does, from plain tensors alone, so that torch.load reads it with
// weights_only=True. docs/formats/torch_archive.md has the format.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/base/file_system.h"
#include "accelerate/formats/safetensors/byte_stream.h"
#include "accelerate/formats/safetensors/tensor_file.h"
#include "accelerate/formats/safetensors/tensor_spec.h"
#include "accelerate/formats/torch_archive/zip_layout.h"

namespace accelerate::detail {

// The pickle of a state dict, as torch.save writes it. Part of formats/torch_archive.

/// Returns a pickle (protocol 2) of an OrderedDict: names to row-major tensors on the CPU. The
/// tensor at place i has the storage "i" of its own. Throws UsageError for a name that appears
/// twice or is too long, and a shape whose size is not valid. Throws CheckpointError for an element
/// type that PyTorch lacks.
[[nodiscard]] std::string pickled_state_dict(const std::vector<TensorSpec>& tensors);

}  // namespace accelerate::detail

namespace accelerate {

/// Writes a file tensor by tensor, as SafetensorsWriter does. commit() makes the complete file
/// appear at `path`; without it nothing is left behind. The value in the file is an OrderedDict of
/// names and row-major tensors on the CPU, each with a storage of its own.
class TorchArchiveWriter {
 public:
  /// Throws UsageError for a name that appears twice or is too long, a negative dimension or a size
  /// that overflows. Throws CheckpointError for an element type that PyTorch lacks (4 and 6 bits),
  /// or when the file cannot be created.
  TorchArchiveWriter(FileSystem& files, const std::filesystem::path& path,
                     std::vector<TensorSpec> specs, AtomicFileOptions options = {});

  /// The value in the file is what `pickle` says instead, whose tensors have the storages "0", "1",
  /// … of `specs`; see pickle_writer.h.
  TorchArchiveWriter(FileSystem& files, const std::filesystem::path& path,
                     const std::vector<TensorSpec>& specs, const std::string& pickle,
                     AtomicFileOptions options = {});

  /// The specs in the order in which append() wants the data: as given.
  [[nodiscard]] const std::vector<TensorSpec>& tensors() const { return file_.tensors(); }
  /// Appends the next tensor in pieces. Throws UsageError when their bytes do not match the spec,
  /// CheckpointError when they cannot be written. Exceptions of `source` pass through; after one,
  /// the file can only be dropped.
  void append(const ByteSource& source);
  /// Completes the file. Throws UsageError when a tensor is missing, CheckpointError when the file
  /// cannot be completed.
  void commit();

 private:
  void append_entry(std::string_view data);
  void finish_if_complete();

  detail::ZipLayout layout_;
  std::vector<std::uint32_t> crcs_;  // Of the entries that are written.
  detail::TensorFile file_;
};

}  // namespace accelerate
