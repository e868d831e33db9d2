// Gathers parts of tensors that lie in files of torch.save, for a ShardCatalogue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "accelerate/formats/shards/shard_catalogue.h"
#include "accelerate/formats/torch_archive/torch_value.h"

namespace accelerate {

struct RowMajorParts {
  std::vector<ShardFile> files = {};
  std::vector<FoundPart> found = {};

  /// Adds a file. Returns its place in `files`.
  std::size_t add_file(std::filesystem::path path, std::shared_ptr<const FileContent> content);
  /// Adds the part `tensor`, which lies in file `file` and begins at `offsets` of the whole tensor
  /// `name` of the shape `whole_shape`. If it is not row-major, it is copied. Throws CheckpointError
  /// if it repeats elements, so that the copy would be larger than what is stored.
  void add(const std::string& name, std::vector<std::int64_t> offsets, const TorchTensor& tensor,
           std::size_t file, std::vector<std::int64_t> whole_shape);
  /// Adds a tensor without elements, which may lie nowhere. Throws CheckpointError, which names
  /// `folder`, if it has elements.
  void add_empty(const std::string& name, DType dtype, const std::vector<std::int64_t>& shape,
                 const std::filesystem::path& folder);
  [[nodiscard]] ShardCatalogue assemble() &&;
};

}  // namespace accelerate
