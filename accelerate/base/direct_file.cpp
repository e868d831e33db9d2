#include "accelerate/base/direct_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "accelerate/base/bytes.h"
#include "accelerate/base/error.h"
#include "accelerate/base/open_file.h"

namespace accelerate {
namespace {

constexpr std::size_t kBlock = DirectFile::kAlignment;
// More would leave the processor's cache between the copy and the disk.
constexpr std::size_t kBounceBytes = std::size_t{1} << 20;
// pread(2) reads at most about 2 GiB a call. Must be a multiple of kBlock.
constexpr std::size_t kMostPerRead = std::size_t{1} << 30;

std::size_t place_in_block(std::uint64_t offset) {
  return static_cast<std::size_t>(offset % kBlock);
}

std::size_t place_in_block(const std::byte* memory) {
  return reinterpret_cast<std::uintptr_t>(memory) % kBlock;
}

// Returns how many of the `size` bytes from `offset` on come before the next block.
std::size_t bytes_before_block(std::uint64_t offset, std::size_t size) {
  return std::min(size, (kBlock - place_in_block(offset)) % kBlock);
}

// Whether this errno says that a file system does not go past the cache.
bool refuses_direct(int error) {
  return error == EINVAL || error == EOPNOTSUPP;
}

// Opens the file of `cached` again. The path could name another file by now.
Descriptor open_direct(int cached, const std::filesystem::path& path, int flags) {
  const std::string itself = "/proc/self/fd/" + std::to_string(cached);
  for (;;) {
    Descriptor fd(::open(itself.c_str(), flags | O_DIRECT | O_CLOEXEC));
    if (fd.valid() || refuses_direct(errno)) return fd;
    // Without /proc, or with another user's: a process that changed its user may not look there.
    if (errno == ENOENT || errno == EACCES) return fd;
    if (errno != EINTR) throw FileError("open", path, errno);
  }
}

std::string range_of(std::uint64_t offset, std::size_t size) {
  return std::to_string(size) + " bytes at offset " + std::to_string(offset);
}

// Removes a new file unless told to keep it.
class UnfinishedFile {
 public:
  explicit UnfinishedFile(const std::filesystem::path& path) : path_(&path) {}
  ~UnfinishedFile() {
    if (path_ != nullptr) ::unlink(path_->c_str());
  }
  UnfinishedFile(const UnfinishedFile&) = delete;
  UnfinishedFile& operator=(const UnfinishedFile&) = delete;
  void keep() { path_ = nullptr; }

 private:
  const std::filesystem::path* path_;
};

}  // namespace

DirectFile DirectFile::open(const std::filesystem::path& path) {
  detail::OpenedFile file = detail::open_regular(path);
  return {path, std::move(file.fd), file.size_bytes, Access::read};
}

DirectFile DirectFile::create(const std::filesystem::path& path, std::uint64_t size_bytes) {
  Descriptor fd = detail::open_or_throw("create", path, O_RDWR | O_CREAT | O_EXCL, 0600);
  UnfinishedFile unfinished(path);
  detail::reserve_space(fd.get(), path, size_bytes);
  DirectFile file(path, std::move(fd), size_bytes, Access::read_and_write);
  unfinished.keep();
  return file;
}

DirectFile::DirectFile(std::filesystem::path path, Descriptor cached, std::uint64_t size_bytes,
                       Access access)
    : path_(std::move(path)),
      cached_(std::move(cached)),
      direct_(open_direct(cached_.get(), path_, access == Access::read ? O_RDONLY : O_RDWR)),
      size_bytes_(size_bytes),
      access_(access),
      is_direct_(direct_.valid()) {}

DirectFile::DirectFile(DirectFile&& other) noexcept
    : path_(std::move(other.path_)),
      cached_(std::move(other.cached_)),
      direct_(std::move(other.direct_)),
      size_bytes_(other.size_bytes_),
      access_(other.access_),
      is_direct_(other.is_direct_.load()) {}

DirectFile& DirectFile::operator=(DirectFile&& other) noexcept {
  path_ = std::move(other.path_);
  cached_ = std::move(other.cached_);
  direct_ = std::move(other.direct_);
  size_bytes_ = other.size_bytes_;
  access_ = other.access_;
  is_direct_ = other.is_direct_.load();
  return *this;
}

void DirectFile::read(std::uint64_t offset, std::span<std::byte> into) const {
  // The system refuses such offsets as it refuses direct access: by EINVAL.
  constexpr auto kMostBytes = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());
  if (into.size() > kMostBytes || offset > kMostBytes - into.size()) {
    refuse_to_read(offset, into.size());
  }
  if (!is_direct_) return read_cached(offset, into);
  if (place_in_block(into.data()) != place_in_block(offset)) {
    return read_through_buffer(offset, into);
  }
  const std::size_t head = bytes_before_block(offset, into.size());
  const std::size_t body = (into.size() - head) / kBlock * kBlock;
  read_through_buffer(offset, into.first(head));
  read_direct(offset + head, into.subspan(head, body), body);
  read_through_buffer(offset + head + body, into.subspan(head + body));
}

void DirectFile::read_cached(std::uint64_t offset, std::span<std::byte> into) const {
  const std::uint64_t begin = offset;
  const std::size_t size = into.size();
  while (!into.empty()) {
    const ssize_t n = ::pread(cached_.get(), into.data(), std::min(into.size(), kMostPerRead),
                              static_cast<off_t>(offset));
    if (n == 0) refuse_to_read(begin, size);
    if (n > 0) {
      offset += static_cast<std::uint64_t>(n);
      into = into.subspan(static_cast<std::size_t>(n));
    } else if (errno != EINTR) {
      const int error = errno;
      throw FileError("read " + range_of(offset, into.size()) + " of", path_, error);
    }
  }
}

// Reads at least `least` bytes, and all of `into` unless the file ends before.
void DirectFile::read_direct(std::uint64_t offset, std::span<std::byte> into,
                             std::size_t least) const {
  std::size_t done = 0;
  // A read that ended within a block, mostly at the file's end, cannot go on past the cache.
  while (done < least && done % kBlock == 0) {
    const auto rest = into.subspan(done, std::min(into.size() - done, kMostPerRead));
    const ssize_t n =
        ::pread(direct_.get(), rest.data(), rest.size(), static_cast<off_t>(offset + done));
    if (n > 0) {
      done += static_cast<std::size_t>(n);
    } else if (n == 0) {
      break;
    } else if (refuses_direct(errno)) {
      is_direct_ = false;
      break;
    } else if (errno != EINTR) {
      const int error = errno;
      throw FileError("read " + range_of(offset + done, rest.size()) + " of", path_, error);
    }
  }
  if (done < least) read_cached(offset + done, into.subspan(done, least - done));
}

void DirectFile::read_through_buffer(std::uint64_t offset, std::span<std::byte> into) const {
  if (into.empty()) return;
  const AlignedBytes buffer(
      std::min(kBounceBytes, detail::round_up(place_in_block(offset) + into.size(), kBlock)));
  while (!into.empty()) {
    const std::size_t skipped = place_in_block(offset);
    const std::size_t taken = std::min(into.size(), buffer.size() - skipped);
    const std::size_t whole = detail::round_up(skipped + taken, kBlock);
    read_direct(offset - skipped, buffer.bytes().first(whole), skipped + taken);
    std::memcpy(into.data(), buffer.data() + skipped, taken);
    offset += taken;
    into = into.subspan(taken);
  }
}

void DirectFile::refuse_to_read(std::uint64_t offset, std::size_t size) const {
  struct stat status{};
  if (::fstat(cached_.get(), &status) != 0) throw FileError("inspect", path_, errno);
  throw FileError("read " + range_of(offset, size) + " of", path_,
                  "it ends after " + std::to_string(status.st_size) + " bytes");
}

void DirectFile::write(std::uint64_t offset, std::span<const std::byte> bytes) const {
  if (access_ == Access::read) {
    throw UsageError("cannot write " + detail::quoted_path(path_) +
                     ": it was opened to read. DirectFile::create makes a file to write");
  }
  if (bytes.size() > size_bytes_ || offset > size_bytes_ - bytes.size()) {
    throw FileError("write " + range_of(offset, bytes.size()) + " of", path_,
                    "it was made " + std::to_string(size_bytes_) + " bytes long");
  }
  require_whole(offset, bytes.size());
  if (!is_direct_) return write_cached(offset, bytes);
  const std::size_t head = bytes_before_block(offset, bytes.size());
  const std::size_t body = (bytes.size() - head) / kBlock * kBlock;
  const auto blocks = bytes.subspan(head, body);
  write_cached(offset, bytes.first(head));
  if (place_in_block(blocks.data()) == 0) {
    write_direct(offset + head, blocks);
  } else {
    write_through_buffer(offset + head, blocks);
  }
  write_cached(offset + head + body, bytes.subspan(head + body));
}

// A write would make a file long again that was cut short, and what was cut off zeros.
void DirectFile::require_whole(std::uint64_t offset, std::size_t size) const {
  struct stat status{};
  if (::fstat(cached_.get(), &status) != 0) throw FileError("inspect", path_, errno);
  if (static_cast<std::uint64_t>(status.st_size) >= size_bytes_) return;
  throw FileError("write " + range_of(offset, size) + " of", path_,
                  "it was made " + std::to_string(size_bytes_) + " bytes long and ends after " +
                      std::to_string(status.st_size) + ": something has cut it short");
}

void DirectFile::write_cached(std::uint64_t offset, std::span<const std::byte> bytes) const {
  const int error =
      write_fully_at(cached_.get(), static_cast<off_t>(offset), detail::byte_text(bytes));
  if (error != 0) throw FileError("write " + range_of(offset, bytes.size()) + " of", path_, error);
}

// A write that is refused halfway, also since the system wrote a part of a block, is repeated.
void DirectFile::write_direct(std::uint64_t offset, std::span<const std::byte> bytes) const {
  const int error =
      write_fully_at(direct_.get(), static_cast<off_t>(offset), detail::byte_text(bytes));
  if (error == 0) return;
  if (!refuses_direct(error)) {
    throw FileError("write " + range_of(offset, bytes.size()) + " of", path_, error);
  }
  is_direct_ = false;
  write_cached(offset, bytes);
}

void DirectFile::write_through_buffer(std::uint64_t offset,
                                      std::span<const std::byte> bytes) const {
  if (bytes.empty()) return;
  const AlignedBytes buffer(std::min(kBounceBytes, bytes.size()));
  while (!bytes.empty()) {
    const std::size_t taken = std::min(bytes.size(), buffer.size());
    std::memcpy(buffer.data(), bytes.data(), taken);
    write_direct(offset, buffer.bytes().first(taken));
    offset += taken;
    bytes = bytes.subspan(taken);
  }
}

}  // namespace accelerate
