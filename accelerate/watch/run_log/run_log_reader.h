// Reads run_log.jsonl while it grows.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "accelerate/watch/run_log/run_history.h"

namespace accelerate {

/// Follows one file. Each poll() reads what was appended since the last poll(); a line without a
/// line end waits until it is complete. A file that was replaced, truncated or rewritten is read
/// again from its beginning. Lines of more than 1 MiB, damaged lines and unknown events are counted
/// and skipped.
///
/// Threads: use it from one thread at a time.
class RunLogReader {
 public:
  explicit RunLogReader(std::filesystem::path path) : path_(std::move(path)) {}

  /// Reads what is new. Returns true when the history changed. While the file does not exist, the
  /// history stays as it is. Throws FileError when the file cannot be read or is not a regular
  /// file. Cost: some system calls when nothing is new, else about five microseconds an event.
  bool poll();

  [[nodiscard]] const RunHistory& history() const { return history_; }

 private:
  [[nodiscard]] bool is_replaced(int fd, const struct stat& status) const;
  void start_over(const struct stat& status);
  std::size_t read_piece(int fd);
  void feed(std::string_view bytes);
  void take_line(std::string_view line);

  std::filesystem::path path_;
  RunHistory history_;
  dev_t device_ = 0;
  ino_t file_ = 0;
  std::uint64_t offset_bytes_ = 0;
  std::string head_;       // The file's first bytes: they tell whether it is still the same file.
  std::string rest_;       // A line without its end.
  bool skipping_ = false;  // Whether it is inside a line that is too long.
};

}  // namespace accelerate
