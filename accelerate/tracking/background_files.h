// Files that grow at the end, written by a thread of their own: whoever appends never waits for a
// disk. When a disk is full, slow or gone, what was appended waits in memory and is written when
// the disk can take it again; a file never holds a torn record that is followed by others. A file
// that someone removes begins anew.
#pragma once

#include <sys/types.h>

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
#include <vector>

#include "accelerate/base/file_system.h"

namespace accelerate::detail {

struct BackgroundFilesOptions {
  /// How long what was appended may wait before it is written; what a killed process can lose.
  std::chrono::milliseconds flush_interval{1000};
  /// How much may wait in memory, over all files, while a disk refuses it. What comes then is lost,
  /// and counted. A single record that is larger is taken when nothing else waits.
  std::size_t max_waiting_bytes = 64 << 20;
  /// So much is written at once, before the interval is over.
  std::size_t hurry_bytes = 4 << 20;
  FileSystem* files = &real_file_system();
};

/// Thread-safe. The destructor writes what waits, once, and warns of what is not written. Belongs
/// to the process that made it: in a fork of that, what is appended is written nowhere, and the
/// destructor does nothing.
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
  /// What the file at `path` is to begin with when it must begin anew; "" at first.
  void set_head(const Path& path, std::string head);
  /// Adds `record`, whole or not at all. Never waits for a disk.
  void append(const Path& path, std::string record);
  /// Makes `path` a file of these bytes. Never waits for a disk. For many files that are written
  /// once: none stays open.
  void write(const Path& path, std::string bytes);
  /// Replaces the file by what `rewrite` makes of it, after all that was appended before and before
  /// all that comes after. `rewrite` runs on the other thread. Cost: reads and writes the file.
  void rewrite(const Path& path, std::function<std::string(std::string)> rewrite);
  /// Waits until everything appended before was tried. True when it is in the files.
  bool flush();
  /// Forgets what waits.
  void discard();

  /// What the file holds from `offset` on, at most `max_bytes`, whether it is written already or
  /// waits; for files that were only appended to. Whoever appends does not wait for it.
  [[nodiscard]] std::string read(const Path& path, std::uint64_t offset, std::size_t max_bytes);
  /// How often the file had to begin anew because someone removed it.
  [[nodiscard]] int removals(const Path& path) const;
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
    std::string head;
    std::uint64_t lost = 0;  // Records that found no room, since the last success.
    int removals = 0;
    bool is_whole = false;  // Written once, then forgotten.
    bool failing = false;
    bool overflowing = false;  // Failing, and it was said that records are lost.
  };
  using Entry = std::pair<const Path*, File*>;

  void add(const Path& path, std::string bytes, bool is_whole);
  [[nodiscard]] bool is_of_this_process() const;
  void run();
  [[nodiscard]] std::vector<Entry> entries();
  bool write_all();
  void forget_whole_files();
  bool write_one(const Path& path, File& file);
  void notice_removal(const Path& path, File& file);
  void write_records(const Path& path, File& file);
  void apply_rewrite(const Path& path, File& file);
  void open(const Path& path, File& file);
  void report_failure(File& file, const std::exception& error);
  void report_success(const Path& path, File& file);

  const std::string owner_;
  const BackgroundFilesOptions options_;
  const pid_t process_;
  // Order of locks: writing_ before mutex_. writing_ is held while a disk is waited for, and guards
  // good_bytes, handle, failing and overflowing; mutex_ guards the rest. Both are held to take from
  // waiting and from files_.
  std::mutex writing_;
  mutable std::mutex mutex_;
  std::unique_ptr<std::condition_variable> wake_ = std::make_unique<std::condition_variable>();
  std::map<Path, File> files_;
  std::size_t waiting_bytes_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace accelerate::detail
