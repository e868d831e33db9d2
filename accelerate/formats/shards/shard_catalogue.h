// Tensors whose parts lie in several files: checks what the files say together before anything is
// allocated, and reads any slice of any tensor. So a checkpoint that was saved by any number of
// ranks is read by any other number. The files are safetensors, or what a reader of another format
// has mapped.
//
//   const auto shards = ShardCatalogue::open(shard_files_in(folder, "model"));
//   for (const ShardedTensor& tensor : shards.tensors()) …
//   shards.read(shards.at("fc.weight"), std::vector<IndexRange>{{8, 16}}, out);  // Rows 8 to 15.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/base/file_system.h"
#include "accelerate/formats/safetensors/safetensors.h"
#include "accelerate/formats/safetensors/tensor_slice.h"
#include "accelerate/formats/shards/tensor_tiles.h"

namespace accelerate {

/// Our limits for a catalogue.
struct ShardLimits {
  static constexpr std::size_t kFiles = 16'384;
};

/// A mapped file that holds parts.
struct ShardFile {
  std::filesystem::path path;                  ///< For error messages.
  std::shared_ptr<const FileContent> content;  ///< Keeps the bytes of the parts alive.
};

/// A part of a tensor, and the file that holds it.
struct ShardPiece {
  TensorTile tile;
  std::size_t file = 0;              ///< Index into ShardCatalogue::files().
  std::span<const std::byte> bytes;  ///< Bytes of the tile, row-major, in the mapped file.
};

/// A whole tensor; `shape` is the global shape. Its pieces cover it and do not overlap.
struct ShardedTensor : TensorSpec {
  std::vector<ShardPiece> pieces;  ///< In the order of their offsets; empty pieces are included.

  /// Returns the piece that is the whole tensor; nullptr if the tensor lies in parts.
  [[nodiscard]] const ShardPiece* whole() const;
};

/// A part of a tensor that a reader has found in a file of any format.
struct FoundPart {
  std::string name;
  DType dtype = DType::f32;
  ShardPiece piece;
  /// The shape of the whole tensor, if the file states it.
  std::optional<std::vector<std::int64_t>> whole_shape = {};
};

/// An open set of files. Copies share the mappings. Threads: safe to read from several threads at
/// the same time.
class ShardCatalogue {
 public:
  /// Maps `paths` and checks what they hold. A file with sharding information holds parts; a file
  /// without it holds whole tensors. The shape of a tensor is the shape that the files state. If
  /// they state none, it is the smallest shape that holds all parts, as in PyTorch.
  ///
  /// Throws CheckpointError, with the tensor, the files and the ranges, for:
  /// - parts that overlap, leave a hole or lie beyond the shape,
  /// - two dtypes or shapes for one name, or a size that overflows,
  /// - sharding information that is invalid or misses a tensor,
  /// - too many files.
  /// Cost: headers are read, data is not.
  [[nodiscard]] static ShardCatalogue open(const std::vector<std::filesystem::path>& paths,
                                           FileSystem& files = real_file_system());
  /// Opens only the tensors for which `counts` is true, given the file's position in `paths` and
  /// the tensor's name. Other tensors in the files are skipped unchecked.
  using Filter = std::function<bool(std::size_t file, std::string_view tensor)>;
  [[nodiscard]] static ShardCatalogue open(const std::vector<std::filesystem::path>& paths,
                                           const Filter& counts,
                                           FileSystem& files = real_file_system());

  /// Makes a catalogue of parts that a reader of another format has found in `files`. Makes the
  /// same checks as open(), and throws the same errors. Also throws CheckpointError for a tile with
  /// negative numbers, and for bytes that are not as many as the tile needs. Throws UsageError for
  /// a piece whose `file` is none of `files`.
  [[nodiscard]] static ShardCatalogue assemble(std::vector<ShardFile> files,
                                               std::vector<FoundPart> parts);

  /// The tensors, sorted by name.
  [[nodiscard]] const std::vector<ShardedTensor>& tensors() const& { return tensors_; }
  const std::vector<ShardedTensor>& tensors() && = delete;
  /// Returns the tensor called `name`; nullptr if there is none. Cost: logarithmic.
  [[nodiscard]] const ShardedTensor* find(std::string_view name) const;
  /// Like find(), but throws CheckpointError, with the most similar name, if there is no such
  /// tensor.
  [[nodiscard]] const ShardedTensor& at(std::string_view name) const;
  [[nodiscard]] const std::vector<ShardFile>& files() const { return files_; }
  /// Keeps the bytes of a piece alive.
  [[nodiscard]] const std::shared_ptr<const FileContent>& content(const ShardPiece& piece) const {
    return files_.at(piece.file).content;
  }

  /// Copies a slice of `tensor`, one range a dimension, into `out`, row-major. Dimensions beyond
  /// `ranges` are taken whole. Throws UsageError when a range leaves the tensor or `out` is not
  /// exactly as large as the slice. Cost: one copy; pieces that the slice does not touch are not
  /// read.
  static void read(const ShardedTensor& tensor, std::span<const IndexRange> ranges,
                   std::span<std::byte> out);

  /// Hands all bytes of `tensor`, row-major, to `sink`, in pieces from the first to the last. A
  /// tensor in one piece is passed without a copy; any other goes through a buffer. Memory: at most
  /// `buffer_bytes` or one element; for 4-bit and 6-bit types the whole tensor.
  static void stream(const ShardedTensor& tensor,
                     const std::function<void(std::span<const std::byte>)>& sink,
                     std::size_t buffer_bytes = std::size_t{8} << 20);

 private:
  std::vector<ShardFile> files_;
  std::vector<ShardedTensor> tensors_;
};

}  // namespace accelerate
