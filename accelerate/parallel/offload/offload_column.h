// A file that serves as memory for one value of each parameter: the parameters themselves, their
// gradients, a moment of their optimizer.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "accelerate/base/direct_file.h"
#include "accelerate/base/lost_pages.h"

namespace accelerate::detail {

/// A shared, writable mapping of a file. A page that cannot be read becomes zeros, which
/// check_for_lost_pages() reports.
class FileMapping {
 public:
  /// Throws FileError where the file system cannot map files.
  explicit FileMapping(const DirectFile& file);
  ~FileMapping();
  FileMapping(const FileMapping&) = delete;
  FileMapping& operator=(const FileMapping&) = delete;

  [[nodiscard]] std::byte* begin() const { return begin_; }
  [[nodiscard]] std::byte* end() const { return begin_ + bytes_; }

 private:
  std::byte* begin_ = nullptr;
  std::uint64_t bytes_;
  std::optional<PageGuard> guard_;
};

/// The number of elements of each slice; 0 where a column has none.
using SliceSizes = std::vector<std::int64_t>;

/// Tensors of a column lie in a shared mapping of its file. Whatever reads or writes them as
/// ordinary tensors is right, through the system's page cache, and takes memory that the system may
/// have back. Planned reads and writes go past the cache, by file offset. The two agree as long as
/// nothing uses a tensor while it is under way.
class OffloadColumn {
 public:
  /// Makes the file, zeros for all `slices`, each from a page on. Throws FileError: no space, no
  /// permission, a file system that cannot map files.
  OffloadColumn(const std::filesystem::path& path, at::ScalarType type, const SliceSizes& slices);
  [[nodiscard]] const DirectFile& file() const { return file_; }
  [[nodiscard]] at::ScalarType type() const { return type_; }
  [[nodiscard]] std::size_t element_bytes() const { return element_bytes_; }
  /// Returns the number of elements of a slice.
  [[nodiscard]] std::int64_t size_of(std::size_t slice) const { return slices_[slice]; }

  /// Returns elements of a slice: a tensor {numel}, which keeps the mapping and `kept` alive.
  [[nodiscard]] at::Tensor tensor(std::size_t slice, std::int64_t begin, std::int64_t numel,
                                  std::shared_ptr<void> kept = nullptr) const;
  /// Returns the file offset of an element.
  [[nodiscard]] std::uint64_t offset(std::size_t slice, std::int64_t element) const;

  /// Returns the offset of the page after a slice.
  [[nodiscard]] std::uint64_t end_of(std::size_t slice) const { return begins_[slice + 1]; }

  /// Where an element lies.
  struct Position {
    std::size_t slice = 0;
    std::int64_t element = 0;
  };
  /// Returns the position of a tensor's first element; nullopt if it does not lie here.
  [[nodiscard]] std::optional<Position> find(const at::Tensor& tensor) const;

  /// Returns the bytes that a column takes on disk.
  [[nodiscard]] static std::uint64_t bytes_of(at::ScalarType type, const SliceSizes& slices);

 private:
  at::ScalarType type_;
  std::size_t element_bytes_;
  SliceSizes slices_;
  std::vector<std::uint64_t> begins_;  // Offset of each slice, and the end.
  DirectFile file_;
  std::shared_ptr<FileMapping> mapping_;
};

}  // namespace accelerate::detail
