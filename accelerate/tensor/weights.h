// Reads and writes named tensors in safetensors files.
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

/// Returns names, dtypes and shapes. Throws CheckpointError for an undefined tensor, and for a
/// dtype that safetensors lacks.
[[nodiscard]] std::vector<TensorSpec> tensor_specs(const std::vector<NamedTensor>& tensors);

/// Calls `visit` with the elements of `tensor` (any device, any strides) in row-major order, piece
/// by piece. Cost: nothing if the elements lie in this order on the CPU. Otherwise each piece is
/// copied; a piece has at most 16 MiB, or one element.
void for_each_piece(const at::Tensor& tensor,
                    const std::function<void(std::span<const std::byte>)>& visit);

/// Writes `tensors` (any device, any strides) to `file` with the metadata {"format": "pt"}, as
/// safetensors.torch.save_file does. Creates missing folders. The file is complete or absent.
/// Throws CheckpointError. Cost: one pass; a tensor that is not contiguous on the CPU is copied
/// piece by piece while it is written.
void save_tensors(const std::vector<NamedTensor>& tensors, const std::filesystem::path& file,
                  FileSystem& files = real_file_system(), const AtomicFileOptions& options = {});

/// Returns the tensors as sources for write_weights. Each is copied to the CPU, row-major, when its
/// turn comes. Throws CheckpointError for an undefined tensor, and for a dtype that safetensors
/// lacks.
[[nodiscard]] std::vector<WeightSource> weight_sources(const std::vector<NamedTensor>& tensors);

/// Returns the tensors of a safetensors file, on the CPU, in the order of the file, without
/// copying. They lie in the mapped file, which they keep open. They are read-only: a write ends the
/// process. Throws CheckpointError. Cost: reading the header; data is read from the disk at its
/// first use.
[[nodiscard]] std::vector<NamedTensor> map_tensors(const std::filesystem::path& file,
                                                   FileSystem& files = real_file_system());

/// As map_tensors, but copies the tensors into new memory. Cost: one copy of the data.
[[nodiscard]] std::vector<NamedTensor> load_tensors(const std::filesystem::path& file,
                                                    FileSystem& files = real_file_system());

}  // namespace accelerate
