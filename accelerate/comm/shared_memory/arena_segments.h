// The allocator inside an arena: keeps track of which bytes of which segment are in use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "accelerate/comm/shared_memory/free_extents.h"
#include "accelerate/comm/shared_memory/interval_table.h"
#include "accelerate/comm/shared_memory/memory_file.h"

namespace accelerate::detail {

/// A memory file and its free extents. Thread-safe.
class ArenaSegments {
 public:
  ArenaSegments();
  ~ArenaSegments();
  ArenaSegments(const ArenaSegments&) = delete;
  ArenaSegments& operator=(const ArenaSegments&) = delete;

  [[nodiscard]] int fd() const { return file_.fd(); }
  /// Throws CommError; then nothing has changed, except that idle segments may have been released.
  [[nodiscard]] SharedExtent take(std::size_t bytes);
  void give(const SharedExtent& extent);

  [[nodiscard]] std::optional<SharedExtent> find(const void* data, std::size_t bytes) const;
  [[nodiscard]] std::byte* address_of(const SharedExtent& extent) const;

  [[nodiscard]] std::size_t bytes_reserved() const;
  [[nodiscard]] std::size_t bytes_in_use() const;

 private:
  void make_room(std::uint64_t bytes);
  bool restore_a_released_segment(std::uint64_t bytes, std::uint64_t most);
  void add_segment(std::uint64_t bytes);
  [[nodiscard]] std::uint64_t preferred_segment_bytes(std::uint64_t needed) const;
  void release_idle_segments(std::uint64_t most);

  mutable std::mutex mutex_;
  MemoryFile file_;
  IntervalTable by_address_;
  IntervalTable by_offset_;
  FreeExtents free_;                                 // in segments that have memory
  std::map<std::uint64_t, std::uint64_t> idle_;      // wholly free segments: offset, bytes
  std::map<std::uint64_t, std::uint64_t> released_;  // segments without memory: offset, bytes
  std::uint64_t idle_bytes_ = 0;
  std::uint64_t reserved_ = 0;
  std::uint64_t in_use_ = 0;
  std::uint64_t end_ = 0;  // where the next segment begins
};

}  // namespace accelerate::detail
