#include "accelerate/base/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <utility>

#include "accelerate/base/error_name.h"
#include "accelerate/base/text.h"

namespace accelerate {

FolderInUse::FolderInUse(std::filesystem::path folder, std::string holder)
    : FileError("lock", std::move(folder),
                "it is in use by " + holder +
                    ". Wait until that has ended, end it, or choose another folder",
                error_name::kFolderInUse),
      holder_(std::move(holder)) {}

namespace detail {
namespace {

namespace fs = std::filesystem;

class RealFolderLock final : public FolderLock {
 public:
  RealFolderLock(fs::path path, Descriptor fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  // The file is removed while the lock is still held. Whoever opened it before must check what the
  // name refers to by then. A forked child leaves the removal to the process that locked.
  ~RealFolderLock() override {
    if (process_ == ::getpid()) ::unlink(path_.c_str());
  }
  RealFolderLock(const RealFolderLock&) = delete;
  RealFolderLock& operator=(const RealFolderLock&) = delete;

 private:
  fs::path path_;
  Descriptor fd_;
  pid_t process_ = ::getpid();
};

std::string own_name() {
  std::array<char, HOST_NAME_MAX + 1> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return "process " + std::to_string(::getpid()) + " on host " + host.data();
}

// O_NOFOLLOW and O_NONBLOCK: others who may write here must not lead us to another file or a pipe.
Descriptor open_lock_file(const fs::path& path, const fs::path& directory) {
  for (;;) {
    Descriptor fd(
        ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666));
    if (fd.valid()) return fd;
    if (errno != EINTR) throw FileError("lock", directory, errno);
  }
}

// Returns what the holder wrote, made printable. A new holder may not have written yet.
std::string holder_of(int fd) {
  std::array<char, 256> text{};
  const ssize_t n = ::pread(fd, text.data(), text.size() - 1, 0);
  std::string holder(trim(std::string_view(text.data(), n > 0 ? static_cast<std::size_t>(n) : 0)));
  std::ranges::replace_if(holder, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return holder.empty() ? "another process" : holder;
}

// Whether `path` still names the file behind `fd`: a holder that left may have removed it since.
bool still_names(const fs::path& path, int fd) {
  struct stat named{};
  struct stat opened{};
  return ::stat(path.c_str(), &named) == 0 && ::fstat(fd, &opened) == 0 &&
         named.st_ino == opened.st_ino && named.st_dev == opened.st_dev;
}

void take(int fd, const fs::path& directory) {
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) throw FolderInUse(directory, holder_of(fd));
    if (errno != EINTR) throw FileError("lock", directory, errno);
  }
}

// Writes who holds the lock, a courtesy to whoever finds it locked. A disk too full for that is no
// reason to refuse the lock. A pipe in place of the lock file is a reason.
void sign(int fd, const fs::path& path) {
  if (::ftruncate(fd, 0) != 0) throw FileError("write", path, errno);
  (void)write_fully_at(fd, 0, own_name() + "\n");
}

}  // namespace

std::unique_ptr<FolderLock> lock_opened(Descriptor opened, const fs::path& file,
                                        const fs::path& lock) {
  take(opened.get(), file);
  if (!still_names(lock, opened.get())) return nullptr;
  sign(opened.get(), lock);
  return std::make_unique<RealFolderLock>(lock, std::move(opened));
}

std::unique_ptr<FolderLock> lock_file(const fs::path& file, const fs::path& lock) {
  for (;;) {
    if (auto held = lock_opened(open_lock_file(lock, file), file, lock)) return held;
  }
}

std::unique_ptr<FolderLock> lock_folder(const fs::path& directory) {
  return lock_file(directory, directory / ".lock");
}

}  // namespace detail
}  // namespace accelerate
