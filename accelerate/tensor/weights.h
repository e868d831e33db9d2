// Reads and writes named tensors: in a file, or as the weights of a model, in one file or several,
// as Transformers and Accelerate lay them out (model.safetensors, or shards with
// model.safetensors.index.json). Files of torch.save can be read, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
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

/// Writes `weights` into `folder`, which is made if it is missing. Writes model.safetensors, or,
/// for more than `max_shard_bytes`, shards with an index, divided as huggingface_hub does. At the
/// end, files of an earlier save are removed. A reader finds the old weights or the new ones, never
/// a mixture. While shards of the same name are exchanged it finds none (an index is missing).
/// Throws CheckpointError. Throws UsageError if a name occurs twice.
void save_weights(const std::vector<NamedTensor>& weights, const std::filesystem::path& folder,
                  std::uint64_t max_shard_bytes, FileSystem& files = real_file_system());

/// Weights that are read one by one, when they are needed. So a model may be larger than memory,
/// and a file that claims terabytes is detected by its outlines.
struct WeightReader {
  /// Names, shapes and dtypes; their data is not defined.
  std::vector<NamedTensor> outlines;
  std::function<at::Tensor(const std::string& name)> read;
  /// Reads the elements begin, …, begin + numel - 1 of a tensor, row-major, shape {numel}.
  std::function<at::Tensor(const std::string& name, std::int64_t begin, std::int64_t numel)>
      read_range;
};

/// Opens the weights at `path`, on the CPU, without a copy where the file allows it. Tensors then
/// lie in mapped files, which the reader keeps open, and must not be written. `path` is a file, an
/// index or a folder, of safetensors or of torch.save; see map_weight_files. Trusts nothing in the
/// files and executes nothing. Throws CheckpointError. Cost: headers are read. Reading a tensor or
/// a range is free if its elements are row-major and aligned, else it costs a copy of the whole
/// tensor.
[[nodiscard]] WeightReader map_weights(const std::filesystem::path& path,
                                       FileSystem& files = real_file_system());

}  // namespace accelerate
