#include "accelerate/transformers/datasets/readers/file_window.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"

namespace accelerate::detail {

FileWindow::FileWindow(const std::filesystem::path& file)
    : file_(file), descriptor_(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (!descriptor_.valid()) throw FileError("open", file, errno);
  struct stat status{};
  if (::fstat(descriptor_.get(), &status) != 0) throw FileError("inspect", file, errno);
  if (!S_ISREG(status.st_mode)) throw FileError("read", file, "it is not a regular file");
  size_ = static_cast<std::uint64_t>(status.st_size);
}

bool FileWindow::grow() {
  constexpr std::size_t kLeast = 256 * 1024;
  bytes_.erase(0, begin_);
  begin_ = 0;
  // Reads as much again as there is, so that a long line needs few steps.
  const std::size_t before = bytes_.size();
  bytes_.resize(before + std::max(kLeast, before));
  ssize_t count = 0;
  do {
    count = ::read(descriptor_.get(), bytes_.data() + before, bytes_.size() - before);
  } while (count < 0 && errno == EINTR);
  if (count < 0) throw FileError("read", file_, errno);
  bytes_.resize(before + static_cast<std::size_t>(count));
  if (read_ == 0) check_beginning();
  read_ += static_cast<std::uint64_t>(count);
  if (count == 0 && read_ < size_) {
    throw DataError("'" + file_.string() + "' ends at byte " + std::to_string(read_) +
                    ", and had " + std::to_string(size_) +
                    " when it was opened: it was cut short while it was read");
  }
  return count > 0;
}

void FileWindow::go_back(std::uint64_t place) {
  if (::lseek(descriptor_.get(), static_cast<off_t>(place), SEEK_SET) < 0)
    throw FileError("read", file_, errno);
  bytes_.clear();
  begin_ = 0;
  read_ = place;
}

void FileWindow::check_beginning() const {
  constexpr std::array<std::pair<std::string_view, const char*>, 5> kCompressed{{
      {{"\x1f\x8b", 2}, "gzip"},
      {{"BZh", 3}, "bzip2"},
      {{"\3757zXZ", 5}, "xz"},  // Octal, because "\xfd7" would be one character.
      {{"\x28\xb5\x2f\xfd", 4}, "zstd"},
      {{"PK\x03\x04", 4}, "zip"},
  }};
  for (const auto& [magic, name] : kCompressed) {
    if (!text().starts_with(magic)) continue;
    throw DataError("'" + file_.string() + "' is compressed by " + name + ". Decompress it first");
  }
}

}  // namespace accelerate::detail
