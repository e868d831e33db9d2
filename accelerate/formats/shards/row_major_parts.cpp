#include "accelerate/formats/shards/row_major_parts.h"

#include <algorithm>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/formats/safetensors/safetensors_header.h"

namespace accelerate {
namespace {

// A copy of a part, in row-major order.
class Copied : public FileContent {
 public:
  explicit Copied(const TorchTensor& tensor) : bytes_(tensor.size_bytes()) {
    tensor.copy_to(bytes_);
  }
  [[nodiscard]] std::span<const std::byte> bytes() const override { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace

std::size_t RowMajorParts::add_file(std::filesystem::path path,
                                    std::shared_ptr<const FileContent> content) {
  files.push_back({std::move(path), std::move(content)});
  return files.size() - 1;
}

void RowMajorParts::add(const std::string& name, std::vector<std::int64_t> offsets,
                        const TorchTensor& tensor, std::size_t file,
                        std::vector<std::int64_t> whole_shape) {
  FoundPart part{.name = name,
                 .dtype = tensor.dtype,
                 .piece = {{std::move(offsets), tensor.shape}, file, {}},
                 .whole_shape = std::move(whole_shape)};
  const std::uint64_t size = tensor.size_bytes();
  if (tensor.contiguous()) {
    part.piece.bytes = tensor.bytes.first(size);
  } else if (size > tensor.storage_bytes) {
    throw CheckpointError(detail::tensor_label(name) + " in '" + files[file].path.string() +
                          "' repeats elements, so that " + std::to_string(size) +
                          " bytes would be made of " + std::to_string(tensor.storage_bytes) +
                          ". In Python, save tensor.contiguous()");
  } else {
    auto copy = std::make_shared<const Copied>(tensor);
    part.piece.bytes = copy->bytes();
    part.piece.file = add_file(files[file].path, std::move(copy));
  }
  found.push_back(std::move(part));
}

void RowMajorParts::add_empty(const std::string& name, DType dtype,
                              const std::vector<std::int64_t>& shape,
                              const std::filesystem::path& folder) {
  if (std::ranges::find(shape, 0) == shape.end())
    throw CheckpointError(detail::tensor_label(name) + " in " + folder.string() +
                          " has the shape " + detail::shape_text(shape) +
                          " and no part: a shard is missing");
  if (files.empty()) (void)add_file(folder, nullptr);
  found.push_back(
      {.name = name, .dtype = dtype, .piece = {whole_tile(shape), 0, {}}, .whole_shape = shape});
}

ShardCatalogue RowMajorParts::assemble() && {
  return ShardCatalogue::assemble(std::move(files), std::move(found));
}

}  // namespace accelerate
