// Which bytes of a file are free: the book-keeping of an allocator, without any memory of its own.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace accelerate::detail {

/// Free extents of one file. Extents that touch become one, but never across the end of a segment.
/// Not thread-safe.
class FreeExtents {
 public:
  struct Extent {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::uint64_t segment = 0;  ///< Offset of the segment that it lies in.
    friend bool operator==(const Extent&, const Extent&) = default;
  };

  /// Takes `bytes` whose offset is a multiple of `alignment` out of the smallest extent that has
  /// room for them, of several the first in the file; nullopt when none has. Cost: logarithmic,
  /// and for large alignments one step for each extent that is too small only because of it.
  [[nodiscard]] std::optional<Extent> take(std::uint64_t bytes, std::uint64_t alignment);

  /// Gives bytes back, or adds new ones; returns the free extent that they are part of now.
  Extent give(Extent extent);

  /// Takes exactly `extent`, which give() or all() returned.
  void remove(const Extent& extent);

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  /// By rising offset.
  [[nodiscard]] const std::map<std::uint64_t, Extent>& all() const { return by_offset_; }

 private:
  void insert(const Extent& extent);

  std::map<std::uint64_t, Extent> by_offset_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_size_;  // {bytes, offset}
  std::uint64_t bytes_ = 0;
};

}  // namespace accelerate::detail
