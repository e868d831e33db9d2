// Which bytes of a file are free: the bookkeeping of an allocator, which does not touch the file.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace accelerate::detail {

// Where bytes lie in the memory file of a process.

/// Bytes of a memory file, and the segment they lie in. Segments never move or shrink, and peers
/// map whole segments.
struct SharedExtent {
  std::uint64_t segment_offset = 0;
  std::uint64_t segment_bytes = 0;
  std::uint64_t offset = 0;  ///< Counted from the start of the file.
  std::uint64_t bytes = 0;
};

/// The free extents of one file. Adjacent extents are merged, but never across the end of a
/// segment. Not thread-safe.
class FreeExtents {
 public:
  struct Extent {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::uint64_t segment = 0;  ///< Offset of the segment that the extent lies in.
    friend bool operator==(const Extent&, const Extent&) = default;
  };

  /// Takes `bytes` bytes at a multiple of `alignment` out of the smallest extent that has room for
  /// them, or of the first such extent in the file. Returns nullopt if none has room. Cost:
  /// logarithmic, and one step for each extent that is too small only because of the alignment.
  [[nodiscard]] std::optional<Extent> take(std::uint64_t bytes, std::uint64_t alignment);

  /// Gives bytes back, or adds new bytes. Returns the free extent that they are now part of.
  Extent give(Extent extent);

  /// Takes exactly `extent`, which must be an extent from give() or all().
  void remove(const Extent& extent);

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  /// The free extents by offset, ascending.
  [[nodiscard]] const std::map<std::uint64_t, Extent>& all() const { return by_offset_; }

 private:
  void insert(const Extent& extent);

  std::map<std::uint64_t, Extent> by_offset_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_size_;  // {bytes, offset}
  std::uint64_t bytes_ = 0;
};

}  // namespace accelerate::detail
