// The file system as the library uses it, behind an interface so that tests can make it fail, run
// full or lose power; and files that are either old or new, never half written.
//
// Everything throws FileError, which carries the path and the errno. Callers know what the file was
// for and say so: catch it and throw_with_context<ConfigError or CheckpointError>(…).
//
// Threads: a FileSystem may be used from several threads at the same time, a WritableFile from one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/base/aligned_bytes.h"
#include "accelerate/base/file_error.h"
#include "accelerate/base/folder_lock.h"

namespace accelerate {

/// A file being written. The destructor closes it and ignores failures: call close() to hear of
/// them.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  /// Appends all of `bytes`. After a failure an unknown part of them is in the file.
  virtual void write(std::string_view bytes) = 0;
  /// Makes the file at least `size_bytes` long and reserves disk space for it. New bytes read as
  /// zeros. So a full disk is an error (ENOSPC) now and not after an hour of writing. A file system
  /// that cannot reserve space only sets the length.
  virtual void reserve(std::uint64_t size_bytes);
  /// Asks that write() send bytes straight to the disk, past the page cache and without a copy.
  /// That is steadier where memory is scarce, and keeps what is cached. It lasts until the first
  /// write whose address, length or file offset is not a multiple of kDirectAlignment. A hint: it
  /// never fails, and has no effect by default or where the file system does not support it.
  virtual void bypass_cache() noexcept;
  static constexpr std::size_t kDirectAlignment = AlignedBytes::kAlignment;
  /// Asks the system to begin writing these bytes of the file to the disk, and does not wait. So
  /// the disk works while more is written. A hint: it never fails, and has no effect by default.
  virtual void start_writeback(std::uint64_t offset_bytes, std::uint64_t size_bytes) noexcept;
  /// Returns once the file's content (not its name, see sync_directory) would survive a power cut.
  virtual void sync() = 0;
  virtual void close() = 0;
};

/// The whole content of a file, readable while this lives. Usually a read-only memory mapping: if
/// another process cuts the file short meanwhile, touching the lost part is SIGBUS.
class FileContent {
 public:
  virtual ~FileContent() = default;
  [[nodiscard]] virtual std::span<const std::byte> bytes() const = 0;
};

enum class FileKind { none, file, directory, other };

struct FileStatus {
  FileKind kind = FileKind::none;
  std::uint64_t size_bytes = 0;  ///< Size of a file; 0 otherwise.
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  /// Makes a new file, mode 0666 less the umask. Fails with EEXIST when there is one already.
  virtual std::unique_ptr<WritableFile> create(const std::filesystem::path& path) = 0;
  /// Gives the file at `to` the permissions of the file at `from`, if there is one and the file
  /// system has permissions.
  virtual void copy_permissions(const std::filesystem::path& /*from*/,
                                const std::filesystem::path& /*to*/) {}
  /// Cuts the file at `path` to `keep_bytes` (at most its size) and opens it to write at its end.
  /// Makes the file if there is none. Refuses what is not a regular file.
  virtual std::unique_ptr<WritableFile> append(const std::filesystem::path& path,
                                               std::uint64_t keep_bytes);
  /// Returns the content of a regular file, without a copy. Refuses what is not a regular file, and
  /// does not wait for a writer when `path` is a FIFO.
  virtual std::shared_ptr<const FileContent> map(const std::filesystem::path& path) = 0;
  /// Returns a copy of the content of a regular file. Refuses one longer than `max_bytes`. Reads to
  /// the end even where the size is not known beforehand, as below /proc.
  virtual std::string read(const std::filesystem::path& path, std::size_t max_bytes) = 0;
  /// Returns what is at `path`, following symbolic links; kind none when there is nothing.
  virtual FileStatus status(const std::filesystem::path& path) = 0;
  /// Moves `from` to `to` in one step. Replaces a file at `to`, or an empty directory by a
  /// directory.
  virtual void rename(const std::filesystem::path& from, const std::filesystem::path& to) = 0;
  /// Returns once the names in `directory` (files created, renamed, removed) would survive a power
  /// cut.
  virtual void sync_directory(const std::filesystem::path& directory) = 0;
  /// Removes a file or an empty directory. False when there was nothing.
  virtual bool remove(const std::filesystem::path& path) = 0;
  /// The names in `directory`, sorted, without "." and "..".
  virtual std::vector<std::string> list(const std::filesystem::path& directory) = 0;
  /// Makes `directory` and its missing parents; nothing to do when it exists.
  virtual void create_directories(const std::filesystem::path& directory) = 0;
  /// Removes what is at `path` and, when that is a folder, all that is below it. A symbolic link is
  /// removed, never followed. False when there was nothing. After a failure some of it may be gone.
  virtual bool remove_tree(const std::filesystem::path& path);
  /// Locks the existing folder `directory` against other processes, other machines that share it,
  /// and other callers in this process. Does not wait: if the folder is locked it throws
  /// FolderInUse, which names the holder. While locked the folder contains a file ".lock".
  [[nodiscard]] virtual std::unique_ptr<FolderLock> lock(const std::filesystem::path& directory);
};

/// Returns the operating system's file system. Stateless.
[[nodiscard]] FileSystem& real_file_system();

/// Returns the operating system's file system with a map() whose bytes may be written. A page that
/// is written becomes a copy of this process; the file does not change. What another process cuts
/// off the file reads as zeros, which check_for_lost_pages() reports.
[[nodiscard]] FileSystem& copy_on_write_file_system();

struct AtomicFileOptions {
  /// Whether commit waits until the content and the name would survive a power cut. If false, other
  /// processes still see the old or the new version, never a part. Only a power cut may then leave
  /// an empty file.
  bool durable = true;
  /// Whether a durable commit makes the name durable too. If false, the caller syncs the folder,
  /// once for many files.
  bool durable_name = true;
};

/// Writes a new version of the file at `path` into a hidden sibling with a random name; commit()
/// puts it in place. Until then readers see the old version. Without a commit the destructor
/// removes the sibling; only a killed process leaves it. The new version has the permissions of the
/// old one. A symbolic link at `path` is replaced, not followed.
class AtomicFile {
 public:
  AtomicFile(FileSystem& files, std::filesystem::path path, AtomicFileOptions options = {});
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::string_view bytes);
  /// The sibling, for reserve. Do not close it.
  [[nodiscard]] WritableFile& file() { return *file_; }
  /// Puts the new version in place. When this throws, `path` still holds the old version, unless
  /// the last step failed (the sync of the directory). Then it holds the new version, which may not
  /// survive a power cut.
  void commit();

 private:
  void discard() noexcept;

  FileSystem& files_;
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  std::unique_ptr<WritableFile> file_;
  AtomicFileOptions options_;
};

/// Makes `path` hold exactly `bytes`, through AtomicFile. The parent directory must exist.
void write_file_atomically(FileSystem& files, const std::filesystem::path& path,
                           std::string_view bytes, AtomicFileOptions options = {});

/// Returns what FileSystem::read returns.
[[nodiscard]] std::string read_file(FileSystem& files, const std::filesystem::path& path,
                                    std::size_t max_bytes);

}  // namespace accelerate
