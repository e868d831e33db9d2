// Files that grow at the end, written by a thread of their own: whoever appends never waits for a
// disk. When a disk is full, slow or gone, what was appended waits in memory and is written when
// the disk can take it again; a file never holds a torn record that is followed by others.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "accelerate/base/file_system.h"

namespace accelerate::detail {

struct BackgroundFilesOptions {
  /// How long what was appended may wait before it is written; what a killed process can lose.
  std::chrono::milliseconds flush_interval{1000};
  /// How much may wait in memory, over all files, while a disk refuses it. What comes then is lost,
  /// and counted.
  std::size_t max_waiting_bytes = 64 << 20;
  FileSystem* files = &real_file_system();
};

/// Thread-safe. The destructor writes what waits, once, and warns of what is not written.
class BackgroundFiles {
 public:
  using Path = std::filesystem::path;

  /// `owner` is for messages: "the tracker 'csv'".
  BackgroundFiles(std::string owner, BackgroundFilesOptions options);
  ~BackgroundFiles();
  BackgroundFiles(const BackgroundFiles&) = delete;
  BackgroundFiles& operator=(const BackgroundFiles&) = delete;

  /// Goes on behind the first `keep_bytes` of the file at `path`; the rest is cut off. Without this
  /// call a file begins empty. Its folder is made when it is missing.
  void resume(const Path& path, std::uint64_t keep_bytes);
  /// Adds `record`, whole or not at all. Never waits for a disk.
  void append(const Path& path, std::string record);
  /// Replaces the file by what `rewrite` makes of it, after all that was appended before and before
  /// all that comes after. `rewrite` runs on the other thread. Cost: reads and writes the file.
  void rewrite(const Path& path, std::function<std::string(std::string)> rewrite);
  /// Waits until everything appended before was tried. True when it is in the files.
  bool flush();

  /// What the file holds from `offset` on, at most `max_bytes`, whether it is written already or
  /// waits; for files that were only appended to.
  [[nodiscard]] std::string read(const Path& path, std::uint64_t offset, std::size_t max_bytes);
  /// Bytes that wait.
  [[nodiscard]] std::size_t waiting_bytes() const;

 private:
  struct Change {
    std::string record;
    std::function<std::string(std::string)> rewrite;
  };
  struct File {
    std::uint64_t good_bytes = 0;          // Of the file: whole records, written.
    std::unique_ptr<WritableFile> handle;  // None: open, and cut to good_bytes, before writing.
    std::deque<Change> waiting;
    std::uint64_t lost = 0;  // Records that found no room, since the last success.
    bool failing = false;
  };

  void run();
  bool write_all();
  bool write_one(const Path& path, File& file);
  void write_records(const Path& path, File& file);
  void apply_rewrite(const Path& path, File& file);
  void open(const Path& path, File& file);
  void report_failure(const Path& path, File& file, const std::exception& error);
  void report_recovery(const Path& path, File& file);

  const std::string owner_;
  const BackgroundFilesOptions options_;
  // Order of locks: writing_ before mutex_. writing_ is held while a disk is waited for, and guards
  // good_bytes, handle and failing; mutex_ guards the rest, and both are held to take from waiting.
  std::mutex writing_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::map<Path, File> files_;  // Never shrinks, so that references stay.
  std::size_t waiting_bytes_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace accelerate::detail
