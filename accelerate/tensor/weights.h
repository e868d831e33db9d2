// Named tensors in safetensors files.
#pragma once

#include <filesystem>
#include <vector>

#include "accelerate/base/file_system.h"
#include "accelerate/formats/safetensors.h"
#include "accelerate/tensor/module_view.h"

namespace accelerate {

/// Writes `tensors` (any device, any strides) to `file` with the metadata {"format": "pt"}, as
/// safetensors.torch.save_file does, creating missing folders. The file is complete or absent.
/// Throws CheckpointError. Cost: one pass; a tensor that is not contiguous on the CPU is copied for
/// the moment in which it is written.
void save_tensors(const std::vector<NamedTensor>& tensors, const std::filesystem::path& file,
                  FileSystem& files = real_file_system(), const AtomicFileOptions& options = {});

/// save_tensors in two steps: everything is written aside at first, and commit() gives the file its
/// name, so that several files can appear one after the other once all are written.
class TensorFile {
 public:
  TensorFile(const std::vector<NamedTensor>& tensors, const std::filesystem::path& file,
             FileSystem& files = real_file_system(), const AtomicFileOptions& options = {});
  void commit() { writer_.commit(); }

 private:
  SafetensorsWriter writer_;
};

/// The tensors of a safetensors file, on the CPU, in the order of the file, without a copy: they
/// lie in the mapped file, which they keep open, and are to be read only (a write ends the
/// process). Throws CheckpointError. Cost: the header; data is read from the disk when it is first
/// used.
[[nodiscard]] std::vector<NamedTensor> map_tensors(const std::filesystem::path& file,
                                                   FileSystem& files = real_file_system());

/// As map_tensors, but in memory of their own. Cost: one copy of the data.
[[nodiscard]] std::vector<NamedTensor> load_tensors(const std::filesystem::path& file,
                                                    FileSystem& files = real_file_system());

}  // namespace accelerate
