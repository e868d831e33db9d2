// Named tensors in safetensors files.
#pragma once

#include <filesystem>
#include <vector>

#include "accelerate/base/file_system.h"
#include "accelerate/tensor/module_view.h"

namespace accelerate {

/// Writes `tensors` (any device, any strides) to `file` with the metadata {"format": "pt"}, as
/// safetensors.torch.save_file does, creating missing folders. The file is complete or absent.
/// Throws CheckpointError. Cost: one pass; a tensor that is not contiguous on the CPU is copied for
/// the moment in which it is written.
void save_tensors(const std::vector<NamedTensor>& tensors, const std::filesystem::path& file,
                  FileSystem& files = real_file_system(), const AtomicFileOptions& options = {});

/// The tensors of a safetensors file, on the CPU, in the order of the file. Throws CheckpointError.
/// Cost: one copy of the data.
[[nodiscard]] std::vector<NamedTensor> load_tensors(const std::filesystem::path& file,
                                                    FileSystem& files = real_file_system());

}  // namespace accelerate
