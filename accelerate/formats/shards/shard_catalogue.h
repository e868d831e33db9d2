// Tensors of which several safetensors files hold parts: what the files say together, checked
// before anything is allocated, and any slice of any tensor. So a checkpoint that was saved by any
// number of ranks is read by any other number.
//
//   const auto shards = ShardCatalogue::open(shard_files_in(folder, "model"));
//   for (const ShardedTensor& tensor : shards.tensors()) …
//   shards.read(shards.at("fc.weight"), std::vector<IndexRange>{{8, 16}}, out);  // Rows 8 to 15.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "accelerate/base/file_system.h"
#include "accelerate/formats/safetensors/safetensors.h"
#include "accelerate/formats/safetensors/tensor_slice.h"
#include "accelerate/formats/shards/tensor_tiles.h"

namespace accelerate {

/// Our caps on a catalogue.
struct ShardLimits {
  static constexpr std::size_t kFiles = 16'384;
};

/// A part of a tensor, and the file that holds it.
struct ShardPiece {
  TensorTile tile;
  std::size_t file = 0;              ///< Of ShardCatalogue::files().
  std::span<const std::byte> bytes;  ///< Of the tile, row-major, in the mapped file.
};

/// A whole tensor; `shape` is the global one. Its pieces cover it and do not overlap.
struct ShardedTensor : TensorSpec {
  std::vector<ShardPiece> pieces;  ///< In the order of their offsets; those without elements too.

  /// The piece that is the whole tensor; nullptr when it lies in parts.
  [[nodiscard]] const ShardPiece* whole() const;
};

/// An open set of files. Copies share the mappings. Threads: safe to read from several at once.
class ShardCatalogue {
 public:
  /// Maps `paths` and checks what they hold. A file with sharding information holds parts, one
  /// without holds whole tensors. The shape of a tensor is what the files say it is, or, as PyTorch
  /// takes it, what its parts reach to. Throws CheckpointError that names the tensor, the files and
  /// the ranges: parts that overlap or leave a hole, one beyond the shape, two dtypes or shapes for
  /// one name, sizes that overflow, information that is garbage or misses a tensor, too many files.
  /// Cost: headers are read, data is not.
  [[nodiscard]] static ShardCatalogue open(const std::vector<std::filesystem::path>& paths,
                                           FileSystem& files = real_file_system());
  /// The same of the tensors that count: those for which `counts`, given the position in `paths`
  /// and the name, is true. What files hold besides is passed over unchecked.
  using Filter = std::function<bool(std::size_t file, std::string_view tensor)>;
  [[nodiscard]] static ShardCatalogue open(const std::vector<std::filesystem::path>& paths,
                                           const Filter& counts,
                                           FileSystem& files = real_file_system());

  /// Sorted by name.
  [[nodiscard]] const std::vector<ShardedTensor>& tensors() const& { return tensors_; }
  const std::vector<ShardedTensor>& tensors() && = delete;
  /// nullptr when there is none. Cost: logarithmic.
  [[nodiscard]] const ShardedTensor* find(std::string_view name) const;
  /// Throws CheckpointError, with the nearest name, when there is none.
  [[nodiscard]] const ShardedTensor& at(std::string_view name) const;
  [[nodiscard]] const std::vector<SafetensorsFile>& files() const { return files_; }
  /// Keeps the bytes of a piece alive.
  [[nodiscard]] const std::shared_ptr<const FileContent>& content(const ShardPiece& piece) const {
    return files_.at(piece.file).content();
  }

  /// Copies the slice of `tensor` by one range a dimension (those beyond `ranges` are taken whole)
  /// into `out`, row-major, which has exactly its size. Throws UsageError when the ranges leave the
  /// tensor or the size is another. Cost: one copy; pieces that the slice does not touch are not
  /// read.
  static void read(const ShardedTensor& tensor, std::span<const IndexRange> ranges,
                   std::span<std::byte> out);

  /// Hands all bytes of `tensor`, row-major, to `sink` in pieces from the first to the last: from
  /// where they lie when it is in one piece, else through a buffer. Memory: `buffer_bytes` at most,
  /// or an element; the tensor for types of 4 and 6 bits.
  static void stream(const ShardedTensor& tensor,
                     const std::function<void(std::span<const std::byte>)>& sink,
                     std::size_t buffer_bytes = std::size_t{8} << 20);

 private:
  std::vector<SafetensorsFile> files_;
  std::vector<ShardedTensor> tensors_;
};

}  // namespace accelerate
