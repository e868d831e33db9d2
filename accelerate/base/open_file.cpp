#include "accelerate/base/open_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <limits>
#include <string>
#include <utility>

#include "accelerate/base/signal_guards.h"

namespace accelerate::detail {

Descriptor open_or_throw(std::string_view action, const std::filesystem::path& path, int flags,
                         mode_t mode) {
  for (;;) {
    Descriptor fd(::open(path.c_str(), flags | O_CLOEXEC, mode));
    if (fd.valid()) return fd;
    if (errno != EINTR) throw FileError(action, path, errno);
  }
}

// O_NONBLOCK: opening a FIFO that nobody writes to would wait for ever.
OpenedFile open_regular(const std::filesystem::path& path) {
  Descriptor fd = open_or_throw("open", path, O_RDONLY | O_NONBLOCK);
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) throw FileError("inspect", path, errno);
  if (S_ISDIR(status.st_mode)) throw FileError("read", path, EISDIR);
  if (!S_ISREG(status.st_mode)) {
    throw FileError("read", path, "it is a device, pipe or socket, not a regular file");
  }
  return {std::move(fd), static_cast<std::size_t>(status.st_size)};
}

off_t checked_offset(std::uint64_t bytes, const std::filesystem::path& path) {
  if (bytes > static_cast<std::uint64_t>(std::numeric_limits<off_t>::max())) {
    throw FileError("write", path, EFBIG);
  }
  return static_cast<off_t>(bytes);
}

namespace {

void lengthen(int fd, const std::filesystem::path& path, off_t size) {
  struct stat status{};
  if (::fstat(fd, &status) != 0) throw FileError("inspect", path, errno);
  if (status.st_size >= size) return;
  while (::ftruncate(fd, size) != 0) {
    if (errno != EINTR) throw FileError("lengthen", path, errno);
  }
}

}  // namespace

void reserve_space(int fd, const std::filesystem::path& path, std::uint64_t size_bytes) {
  const off_t size = checked_offset(size_bytes, path);
  if (size == 0) return;
  const SuppressedSignal file_may_not_grow(SIGXFSZ);
  while (::fallocate(fd, 0, 0, size) != 0) {
    if (errno == EOPNOTSUPP) return lengthen(fd, path, size);
    if (errno != EINTR)
      throw FileError("reserve " + std::to_string(size) + " bytes for", path, errno);
  }
}

}  // namespace accelerate::detail
