// Named tensors in safetensors files.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "accelerate/base/file_system.h"
#include "accelerate/formats/weights/weight_writer.h"
#include "accelerate/tensor/module_view.h"

namespace accelerate {

/// Names, dtypes and shapes. Throws CheckpointError for an undefined tensor, and for a dtype that
/// safetensors lacks.
[[nodiscard]] std::vector<TensorSpec> tensor_specs(const std::vector<NamedTensor>& tensors);

/// Calls `visit` with the elements of `tensor` (any device, any strides) in row-major order, piece
/// by piece. Cost: none where they lie like that on the CPU; elsewhere each piece is copied, of at
/// most 16 MiB or one element.
void for_each_piece(const at::Tensor& tensor,
                    const std::function<void(std::span<const std::byte>)>& visit);

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
