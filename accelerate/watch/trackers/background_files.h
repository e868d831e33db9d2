// Files that grow at the end, written by a separate thread: a caller that appends never waits for a
// disk. If a disk is full, slow or gone, records wait in memory and are written when the disk
// accepts them again. A torn record is never followed by other records. If somebody removes a file,
// it begins again.
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
  /// How long records may wait before they are written; a killed process can lose them.
  std::chrono::milliseconds flush_interval{1000};
  /// How many bytes may wait in memory, over all files, while a disk refuses them. Later records
  /// are lost, and counted. A single larger record is accepted if nothing else waits.
  std::size_t max_waiting_bytes = 64 << 20;
  /// This many waiting bytes are written immediately, before the interval is over.
  std::size_t hurry_bytes = 4 << 20;
  FileSystem* files = &real_file_system();
};

/// Thread-safe. The destructor tries once to write what waits, and warns about what it could not
/// write. Belongs to the process that made it: in a forked process, appended records are not
/// written, and the destructor does nothing.
class BackgroundFiles {
 public:
  using Path = std::filesystem::path;

  /// `owner` names the owner in messages: "the tracker 'csv'".
  BackgroundFiles(std::string owner, BackgroundFilesOptions options);
  ~BackgroundFiles();
  BackgroundFiles(const BackgroundFiles&) = delete;
  BackgroundFiles& operator=(const BackgroundFiles&) = delete;

  /// Continues after the first `keep_bytes` of the file at `path`; cuts off the rest. Without this
  /// call a file begins empty. Its folder is made if it is missing.
  void resume(const Path& path, std::uint64_t keep_bytes);
  /// Sets what the file at `path` begins with if it must begin again; "" at first.
  void set_head(const Path& path, std::string head);
  /// Appends `record`, whole or not at all. Never waits for a disk.
  void append(const Path& path, std::string record);
  /// Makes `path` a file of these bytes. Never waits for a disk. Suited to many files that are
  /// written once: none stays open.
  void write(const Path& path, std::string bytes);
  /// Replaces the file's content by what `rewrite` returns for it, after all earlier records and
  /// before all later ones. `rewrite` runs on the other thread. Cost: reads and writes the file.
  void rewrite(const Path& path, std::function<std::string(std::string)> rewrite);
  /// Waits until the writing of all earlier records was tried. Returns whether they are in the
  /// files.
  bool flush();
  /// The bytes that wait.
  [[nodiscard]] std::size_t waiting_bytes() const;

 private:
  struct Change {
    std::string record;
    std::function<std::string(std::string)> rewrite;
  };
  struct File {
    std::uint64_t good_bytes = 0;  // In the file: whole records, written.
    // If null: open the file, cut to good_bytes, before writing.
    std::unique_ptr<WritableFile> handle;
    std::deque<Change> waiting;
    std::string head;
    std::uint64_t lost = 0;  // Records that found no room since the last success.
    bool is_whole = false;   // Written once, then forgotten.
    bool failing = false;
    bool overflowing = false;  // Failing, and a warning said that records are lost.
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
  // Order of locks: writing_ before mutex_. writing_ is held while waiting for a disk, and guards
  // good_bytes, handle, failing and overflowing. mutex_ guards the rest. Removing from `waiting` or
  // from files_ requires both.
  std::mutex writing_;
  mutable std::mutex mutex_;
  std::unique_ptr<std::condition_variable> wake_ = std::make_unique<std::condition_variable>();
  std::map<Path, File> files_;
  std::size_t waiting_bytes_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace accelerate::detail
