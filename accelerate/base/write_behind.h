// A long file from its beginning to its end, written while the caller gets more of it ready.
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

/// Two buffers of 8 MiB: one is filled while a thread writes the other one. Large files that will
/// be synced anyway go past the page cache. Others go into it, long pieces from where they are,
/// until it takes less than half a GiB a second, because then finding pages for it costs more than
/// a disk. Memory: the buffers, as far as
/// they were filled. Not thread-safe.
class WriteBehind {
 public:
  struct Options {
    std::uint64_t size_bytes = 0;  ///< Of the whole file.
    bool durable = true;           ///< Whether it will be synced.
    /// Called with the bytes of each piece that was written, by the thread that wrote.
    std::function<void(std::uint64_t)> counter = {};
  };

  /// Takes the room of the whole file. `file` is new and outlives this.
  WriteBehind(WritableFile& file, Options options);
  ~WriteBehind();
  WriteBehind(const WriteBehind&) = delete;
  WriteBehind& operator=(const WriteBehind&) = delete;

  /// Copies `bytes`, and may wait for room. Throws FileError, of earlier bytes too.
  void append(std::string_view bytes);
  /// Returns when all is written. The last call.
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
  std::uint64_t begun_bytes_ = 0;  // Written, being written, but not in the buffer that is filled.
  std::uint64_t written_bytes_ = 0;     // By whoever writes.
  std::atomic<bool> bypasses_ = false;  // Set by whoever writes.
  std::size_t judged_bytes_ = 0;        // Since the cache was judged last, and how long they took.
  Clock::duration judged_time_{};
  std::future<void> write_;  // Last: it is waited for while all that it uses is there.
};

}  // namespace accelerate
