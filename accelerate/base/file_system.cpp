#include "accelerate/base/file_system.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <system_error>
#include <utility>

#include "accelerate/base/descriptor.h"
#include "accelerate/base/lost_pages.h"
#include "accelerate/base/open_file.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

void sync_or_throw(int fd, const fs::path& path) {
  while (::fsync(fd) != 0) {
    // A failed fsync may have dropped the dirty pages, so it is retried only after an interruption.
    if (errno != EINTR) throw FileError("flush to disk", path, errno);
  }
}

class RealFile final : public WritableFile {
 public:
  RealFile(fs::path path, Descriptor fd, bool appends = false)
      : path_(std::move(path)), fd_(std::move(fd)), appends_(appends) {}

  void write(std::string_view bytes) override;
  void reserve(std::uint64_t size_bytes) override {
    detail::reserve_space(fd_.get(), path_, size_bytes);
  }
  void bypass_cache() noexcept override { direct_ = !appends_ && set_direct(true); }
  void start_writeback(std::uint64_t offset_bytes, std::uint64_t size_bytes) noexcept override {
    (void)::sync_file_range(fd_.get(), static_cast<off_t>(offset_bytes),
                            static_cast<off_t>(size_bytes), SYNC_FILE_RANGE_WRITE);
  }
  void sync() override { sync_or_throw(fd_.get(), path_); }
  void close() override {
    if (const int error = fd_.close()) throw FileError("close", path_, error);
  }

 private:
  bool set_direct(bool on) noexcept;
  [[nodiscard]] bool fits_direct(std::string_view bytes) const;

  fs::path path_;
  Descriptor fd_;
  bool appends_;
  bool direct_ = false;   // The next write may bypass the cache.
  std::uint64_t at_ = 0;  // The position of write(); not used when appending.
};

// Writes at an explicit offset. So a write past the cache that the file system refuses can be
// repeated as a whole.
void RealFile::write(std::string_view bytes) {
  int error = 0;
  if (appends_) {
    error = write_fully(fd_.get(), bytes);
  } else {
    const off_t offset = detail::checked_offset(at_, path_);
    if (direct_ && !fits_direct(bytes)) direct_ = !set_direct(false);
    error = write_fully_at(fd_.get(), offset, bytes);
    if (error == EINVAL && direct_) {
      direct_ = !set_direct(false);
      error = write_fully_at(fd_.get(), offset, bytes);
    }
    at_ += bytes.size();
  }
  if (error != 0) throw FileError("write", path_, error);
}

bool RealFile::set_direct(bool on) noexcept {
  const int flags = ::fcntl(fd_.get(), F_GETFL);
  return flags != -1 && ::fcntl(fd_.get(), F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

bool RealFile::fits_direct(std::string_view bytes) const {
  return (reinterpret_cast<std::uintptr_t>(bytes.data()) | bytes.size() | at_) % kDirectAlignment ==
         0;
}

class Mapping final : public FileContent {
 public:
  Mapping(const fs::path& path, const detail::OpenedFile& file, int protection)
      : size_(file.size_bytes) {
    if (size_ == 0) return;  // mmap refuses an empty range.
    data_ = ::mmap(nullptr, size_, protection, MAP_PRIVATE, file.fd.get(), 0);
    if (data_ == MAP_FAILED) throw FileError("map", path, errno);
    if ((protection & PROT_WRITE) != 0) guard_.emplace(data_, size_, file.fd.get(), path);
  }
  ~Mapping() override {
    guard_.reset();
    if (size_ > 0) ::munmap(data_, size_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const override {
    return {static_cast<const std::byte*>(data_), size_};
  }

 private:
  std::size_t size_;
  void* data_ = nullptr;
  std::optional<PageGuard> guard_;
};

[[noreturn]] void refuse_size(const fs::path& path, std::size_t max_bytes) {
  throw FileError(
      "read", path,
      "it is longer than the " + std::to_string(max_bytes) + " bytes that are allowed here");
}

class RealFileSystem final : public FileSystem {
 public:
  explicit RealFileSystem(int protection) : protection_(protection) {}
  std::unique_ptr<WritableFile> create(const fs::path& path) override {
    return std::make_unique<RealFile>(
        path, detail::open_or_throw("create", path, O_WRONLY | O_CREAT | O_EXCL));
  }
  void copy_permissions(const fs::path& from, const fs::path& to) override;
  std::unique_ptr<WritableFile> append(const fs::path& path, std::uint64_t keep_bytes) override;
  std::shared_ptr<const FileContent> map(const fs::path& path) override {
    return std::make_shared<const Mapping>(path, detail::open_regular(path), protection_);
  }
  std::string read(const fs::path& path, std::size_t max_bytes) override;
  FileStatus status(const fs::path& path) override;
  void rename(const fs::path& from, const fs::path& to) override;
  void sync_directory(const fs::path& directory) override;
  bool remove(const fs::path& path) override;
  std::vector<std::string> list(const fs::path& directory) override;
  void create_directories(const fs::path& directory) override;
  bool remove_tree(const fs::path& path) override;
  std::unique_ptr<FolderLock> lock(const fs::path& directory) override {
    return detail::lock_folder(directory);
  }

 private:
  int protection_;  // The protection of mapped memory.
};

void RealFileSystem::copy_permissions(const fs::path& from, const fs::path& to) {
  constexpr mode_t kPermissions = 0777;
  struct stat status{};
  if (::lstat(from.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  if (::chmod(to.c_str(), status.st_mode & kPermissions) != 0)
    throw FileError("set the permissions of", to, errno);
}

std::unique_ptr<WritableFile> RealFileSystem::append(const fs::path& path,
                                                     std::uint64_t keep_bytes) {
  // O_NONBLOCK: opening a FIFO that nobody reads would wait for ever.
  Descriptor fd = detail::open_or_throw("open", path, O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK);
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) throw FileError("inspect", path, errno);
  if (!S_ISREG(status.st_mode)) throw FileError("append to", path, "it is not a regular file");
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (keep_bytes < size && ::ftruncate(fd.get(), static_cast<off_t>(keep_bytes)) != 0) {
    throw FileError("shorten", path, errno);
  }
  return std::make_unique<RealFile>(path, std::move(fd), true);
}

std::string RealFileSystem::read(const fs::path& path, std::size_t max_bytes) {
  const detail::OpenedFile file = detail::open_regular(path);
  if (file.size_bytes > max_bytes) refuse_size(path, max_bytes);
  constexpr std::size_t kLeastRoom = 4096;
  std::string text;
  for (std::size_t used = 0;;) {
    // There is room beyond the size, because a file below /proc holds more than its size says.
    text.resize(std::max(file.size_bytes + 1, used + kLeastRoom));
    const ssize_t n = ::read(file.fd.get(), text.data() + used, text.size() - used);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw FileError("read", path, errno);
    used += static_cast<std::size_t>(n);
    if (used > max_bytes) refuse_size(path, max_bytes);
    if (n == 0) {
      text.resize(used);
      return text;
    }
  }
}

FileStatus RealFileSystem::status(const fs::path& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return {};
    throw FileError("inspect", path, errno);
  }
  if (S_ISREG(status.st_mode)) return {FileKind::file, static_cast<std::uint64_t>(status.st_size)};
  return {S_ISDIR(status.st_mode) ? FileKind::directory : FileKind::other, 0};
}

void RealFileSystem::rename(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return;
  const int error = errno;
  throw FileError("rename " + detail::quoted_path(from) + " to", to, error);
}

void RealFileSystem::sync_directory(const fs::path& directory) {
  const Descriptor fd = detail::open_or_throw("open", directory, O_RDONLY | O_DIRECTORY);
  sync_or_throw(fd.get(), directory);
}

bool RealFileSystem::remove(const fs::path& path) {
  if (::remove(path.c_str()) == 0) return true;
  if (errno == ENOENT) return false;
  throw FileError("remove", path, errno);
}

std::vector<std::string> RealFileSystem::list(const fs::path& directory) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(directory, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    names.push_back(entry->path().filename().native());
  }
  if (error) throw FileError("list", directory, error.value());
  std::ranges::sort(names);
  return names;
}

void RealFileSystem::create_directories(const fs::path& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) throw FileError("create the directory", directory, error.value());
}

bool RealFileSystem::remove_tree(const fs::path& path) {
  std::error_code error;
  const std::uintmax_t removed = fs::remove_all(path, error);
  if (error) throw FileError("remove", path, error.value());
  return removed > 0;
}

}  // namespace

void WritableFile::reserve(std::uint64_t) {
  throw FileError("reserve room for", "", ENOTSUP);
}

void WritableFile::bypass_cache() noexcept {}

void WritableFile::start_writeback(std::uint64_t, std::uint64_t) noexcept {}

bool FileSystem::remove_tree(const fs::path& path) {
  if (status(path).kind == FileKind::directory) {
    for (const std::string& name : list(path)) remove_tree(path / name);
  }
  return remove(path);
}

std::unique_ptr<FolderLock> FileSystem::lock(const fs::path& directory) {
  throw FileError("lock", directory, ENOTSUP);
}

std::unique_ptr<WritableFile> FileSystem::append(const fs::path& path, std::uint64_t) {
  throw FileError("append to", path, ENOTSUP);
}

FileSystem& real_file_system() {
  static RealFileSystem files(PROT_READ);
  return files;
}

FileSystem& copy_on_write_file_system() {
  static RealFileSystem files(PROT_READ | PROT_WRITE);
  return files;
}

std::string read_file(FileSystem& files, const fs::path& path, std::size_t max_bytes) {
  return files.read(path, max_bytes);
}

}  // namespace accelerate
