// Named tensors in safetensors files.
#pragma once

#include <filesystem>
#include <vector>

#include "accelerate/base/file_system.h"
#include "accelerate/formats/weight_writer.h"
#include "accelerate/tensor/module_view.h"

namespace accelerate {

/// Writes `tensors` (any device, any strides) to `file` with the metadata {"format": "pt"}, as
/// safetensors.torch.save_file does, creating missing folders. The file is complete or absent.
/// Throws CheckpointError. Cost: one pass; a tensor that is not contiguous on the CPU is copied for
/// the moment in which it is written.
void save_tensors(const std::vector<NamedTensor>& tensors, const std::filesystem::path& file,
                  FileSystem& files = real_file_system(), const AtomicFileOptions& options = {});

/// The tensors as sources for write_weights. Throws CheckpointError for one that is undefined or
/// has a dtype that safetensors lacks. Each is brought to the CPU, row-major, in its turn.
[[nodiscard]] std::vector<WeightSource> weight_sources(const std::vector<NamedTensor>& tensors);

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
