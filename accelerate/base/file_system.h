// The file system as the library uses it, behind an interface so that tests can make it fail, run
// full or lose power; and files that are either old or new, never half written.
//
// Everything throws FileError, which carries the path and the errno. Callers know what the file was
// for and say so: catch it and throw_with_context<ConfigError or CheckpointError>(…).
//
// Threads: a FileSystem may be used from several threads at once, a WritableFile from one, except
// for write_at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/base/error.h"

namespace accelerate {

/// The operating system refused something: "cannot open '/data/a.yaml': Permission denied".
class FileError : public Error {
 public:
  /// `action` is a verb, as in "cannot <action> '<path>'".
  FileError(std::string_view action, std::filesystem::path path, int error_number);
  /// For what is no errno, such as a folder where a file should be: "cannot read '<path>':
  /// <reason>".
  FileError(std::string_view action, std::filesystem::path path, const std::string& reason);

  [[nodiscard]] std::string_view kind() const noexcept override { return "FileError"; }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  /// The errno, 0 when the reason was none.
  [[nodiscard]] int error_number() const noexcept { return error_number_; }

 private:
  std::filesystem::path path_;
  int error_number_ = 0;
};

/// A folder that another process, or another part of this one, keeps to itself: "cannot lock
/// 'runs/a': it is in use by process 4711 on host node1. …".
class FolderInUse : public FileError {
 public:
  /// `holder` says who: "process 4711 on host node1".
  FolderInUse(std::filesystem::path folder, std::string holder);

  [[nodiscard]] std::string_view kind() const noexcept override { return "FolderInUse"; }
  [[nodiscard]] const std::string& holder() const noexcept { return holder_; }

 private:
  std::string holder_;
};

/// A file being written. The destructor closes it and ignores failures: call close() to hear of
/// them.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  /// Appends all of `bytes`. After a failure an unknown part of them is in the file.
  virtual void write(std::string_view bytes) = 0;
  /// Writes all of `bytes` from `offset_bytes` on, wherever write() has got to, which does not
  /// move. What lies between the old end and the offset reads as zeros. Several threads may do so
  /// at once, in places that do not overlap. Refuses a file that append() opened: the system would
  /// put the bytes at its end.
  virtual void write_at(std::uint64_t offset_bytes, std::string_view bytes);
  /// Makes the file at least `size_bytes` long, new bytes reading as zeros, and takes their room on
  /// the disk, so that a full disk is an error (ENOSPC) now and not after an hour of writing. A
  /// file system that cannot take room ahead only gets the length.
  virtual void reserve(std::uint64_t size_bytes);
  /// Asks that write() takes long pieces past the page cache, straight to the disk, from where they
  /// are: steadier where memory is scarce, and what is cached stays. It does so as long as address,
  /// length and place are multiples of kDirectAlignment; the rest goes the usual way, in any order.
  /// A hint, by default and where the file system does not do it without effect; it never fails.
  virtual void bypass_cache() noexcept;
  static constexpr std::size_t kDirectAlignment = 4096;
  /// Asks that these bytes, which are written, begin their way to the disk, and does not wait: so
  /// the disk works while more is written. A hint, by default without effect; it never fails.
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

/// A folder held by one. Given back by the destructor, and by the system when the process dies,
/// whatever it dies of.
class FolderLock {
 public:
  virtual ~FolderLock() = default;
};

enum class FileKind { none, file, directory, other };

struct FileStatus {
  FileKind kind = FileKind::none;
  std::uint64_t size_bytes = 0;  ///< Of a file; 0 otherwise.
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
  /// Opens the file at `path` to write at its end, made when there is none, after cutting it to
  /// `keep_bytes` (at most its size). Refuses what is not a regular file.
  virtual std::unique_ptr<WritableFile> append(const std::filesystem::path& path,
                                               std::uint64_t keep_bytes);
  /// The content of a regular file, without a copy. Refuses what is not a regular file, and does
  /// not wait for a writer when `path` is a FIFO.
  virtual std::shared_ptr<const FileContent> map(const std::filesystem::path& path) = 0;
  /// A copy of the content of a regular file. Refuses one longer than `max_bytes`; reads to the end
  /// also where the size is not known before, as below /proc.
  virtual std::string read(const std::filesystem::path& path, std::size_t max_bytes) = 0;
  /// What is at `path`, symbolic links followed; kind none when there is nothing.
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
  /// removed, never followed. False when there was nothing. After a failure a part may be gone.
  virtual bool remove_tree(const std::filesystem::path& path);
  /// Keeps the existing folder `directory` for the caller, against other processes, other machines
  /// that share it, and other callers in this process. Throws FolderInUse, with who has it, at
  /// once: it does not wait. While held there is a file ".lock" in the folder.
  [[nodiscard]] virtual std::unique_ptr<FolderLock> lock(const std::filesystem::path& directory);
};

/// The operating system's. Stateless.
[[nodiscard]] FileSystem& real_file_system();

/// The same, whose map() gives bytes that may be written: a page that is written becomes this
/// process's own, and the file stays as it is. What another process cuts away is zeros, of which
/// check_for_lost_pages() tells.
[[nodiscard]] FileSystem& copy_on_write_file_system();

struct AtomicFileOptions {
  /// Whether commit waits until the content and the name would survive a power cut. Without, other
  /// processes still see old or new, never a part; only a power cut may leave an empty file.
  bool durable = true;
  /// Whether that goes for the name too. Without, the caller syncs the folder, once for many files.
  bool durable_name = true;
};

/// Writes a new version of the file at `path` aside, in a hidden sibling with a random name, and
/// puts it in place in commit(). Until then readers see the old version. Without a commit the
/// destructor removes the sibling; only a killed process leaves it. The new version has the
/// permissions of the old one. A symbolic link at `path` is replaced, not followed.
class AtomicFile {
 public:
  AtomicFile(FileSystem& files, std::filesystem::path path, AtomicFileOptions options = {});
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::string_view bytes);
  /// The sibling, for write_at and reserve. Not to be closed.
  [[nodiscard]] WritableFile& file() { return *file_; }
  /// When this throws, `path` holds the old version, unless it was the very last step that failed
  /// (sync of the directory): then the new one, which may not survive a power cut.
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

/// FileSystem::read.
[[nodiscard]] std::string read_file(FileSystem& files, const std::filesystem::path& path,
                                    std::size_t max_bytes);

}  // namespace accelerate
