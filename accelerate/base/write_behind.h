// Writes a long file from its beginning to its end while the caller prepares more of it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string_view>

#include "accelerate/base/file_system.h"

namespace accelerate {

/// Has two buffers of 8 MiB: one is filled while a thread writes the other one. Large files that
/// will be synced anyway go past the page cache. Other files go into it while it takes at least
/// half a GiB a second. A slower cache is short of pages, and finding pages costs more than a disk.
/// Long pieces of a file that will not be synced go into the cache without a copy into a buffer.
/// Memory: the buffers, as far as they were filled. Not thread-safe.
class WriteBehind {
 public:
  struct Options {
    std::uint64_t size_bytes = 0;  ///< Size of the whole file.
    bool durable = true;           ///< Whether it will be synced.
    /// Called with the bytes of each piece that was written, by the thread that wrote.
    std::function<void(std::uint64_t)> counter = {};
  };

  /// Reserves disk space for the whole file. `file` must be new and outlive this.
  WriteBehind(WritableFile& file, Options options);
  ~WriteBehind();
  WriteBehind(const WriteBehind&) = delete;
  WriteBehind& operator=(const WriteBehind&) = delete;

  /// Copies or writes `bytes`, and may wait for room. Throws FileError, also for earlier bytes.
  void append(std::string_view bytes);
  /// Returns when all bytes are written. Must be the last call.
  void finish();

 private:
  class Buffer;
  using Clock = std::chrono::steady_clock;

  void begin_write();
  void await_write();
  void put(std::string_view bytes);
  void flush();
  [[nodiscard]] bool takes_at_once(std::string_view bytes) const;
  [[nodiscard]] std::size_t room() const;
  void judge_cache(std::size_t bytes, Clock::duration taken);

  WritableFile& file_;
  Options options_;
  std::unique_ptr<Buffer> filling_, writing_;
  std::uint64_t begun_bytes_ = 0;       // Written or being written; not what filling_ holds.
  std::uint64_t written_bytes_ = 0;     // Used by the writing thread alone.
  std::atomic<bool> bypasses_ = false;  // Set by the constructor and the writing thread.
  // Bytes since the cache was last judged, and how long they took.
  std::size_t judged_bytes_ = 0;
  Clock::duration judged_time_{};
  std::future<void> write_;  // Last: its destructor waits for a write that uses all other members.
};

}  // namespace accelerate
