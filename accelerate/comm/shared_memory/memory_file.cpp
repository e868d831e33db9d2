#include "accelerate/comm/shared_memory/memory_file.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/file_error.h"
#include "accelerate/base/machine/hardware.h"
#include "accelerate/base/text.h"

// The C library's headers may be too old for these; older kernels answer EINVAL.
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace accelerate::detail {
namespace {

constexpr const char* kWithoutIt = " ACCELERATE_COMM=gloo does without shared memory.";

std::string cure(int error) {
  switch (error) {
    case EMFILE:
      return ". This process has reached its limit of open files (RLIMIT_NOFILE): raise "
             "`ulimit -n`.";
    case ENFILE:
      return ". The machine has reached its limit of open files: raise fs.file-max.";
    case ENOSYS:
    case EPERM:
      return ". The kernel has no memory files (Linux 3.17 has), or a sandbox refuses the call: "
             "allow memfd_create and fallocate there.";
    case ENOMEM:
    case ENOSPC:
    case EFAULT:  // the result of populating memory whose touch would have been a SIGBUS
      return ". There is not enough memory on this machine or in this container, or for this "
             "process (RLIMIT_AS, `ulimit -v`): use fewer ranks, smaller buckets or batches, or "
             "raise the limit.";
    default:
      return ".";
  }
}

ErrorName name_of_error(int error) {
  const bool is_memory = error == ENOMEM || error == ENOSPC || error == EFAULT;
  return is_memory ? error_name::kSharedMemoryFull : name_of_errno(error);
}

[[noreturn]] void throw_system_error(const std::string& what, int error) {
  throw CommError(what + ": " + std::strerror(error) + cure(error) + kWithoutIt,
                  name_of_error(error));
}

std::string cannot_reserve(std::uint64_t bytes) {
  return "cannot reserve " + format_bytes(static_cast<double>(bytes)) + " of shared memory";
}

// Checked first, because growing beyond the limit would raise SIGXFSZ, which ends the process.
void check_file_size_limit(std::uint64_t size, std::uint64_t bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
      size <= limit.rlim_cur) {
    return;
  }
  throw CommError(cannot_reserve(bytes) + ": the memory file would grow to " +
                      format_bytes(static_cast<double>(size)) +
                      ", and the limit on file sizes (RLIMIT_FSIZE) is " +
                      format_bytes(static_cast<double>(limit.rlim_cur)) +
                      ". Raise it with `ulimit -f unlimited`." + kWithoutIt,
                  error_name::kSharedMemoryFull);
}

// Checked first, because the kernel would kill some process to get more memory than there is.
void check_available_memory(std::uint64_t bytes) {
  const AvailableMemory available = available_memory();
  if (bytes <= available.bytes) return;
  throw CommError(cannot_reserve(bytes) + ": " + available.where + " has " +
                      format_bytes(static_cast<double>(available.bytes)) +
                      " left. Use fewer ranks, smaller buckets or batches, or raise the limit." +
                      kWithoutIt,
                  error_name::kSharedMemoryFull);
}

int make_memory_file() {
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  const int fd = ::memfd_create("accelerate", kFlags | MFD_NOEXEC_SEAL);
  return fd < 0 && errno == EINVAL ? ::memfd_create("accelerate", kFlags) : fd;
}

// Fills the page tables, and reserves the memory if it is not reserved yet. Returns 0 or the errno;
// a lack of memory is an error and not a signal.
int populate(void* address, std::uint64_t bytes) {
  while (::madvise(address, bytes, MADV_POPULATE_WRITE) != 0) {
    if (errno == EINVAL) return 0;  // before Linux 5.14: the first touch is slower
    if (errno != EINTR) return errno;
  }
  return 0;
}

}  // namespace

MemoryFile::MemoryFile() : fd_(make_memory_file()) {
  if (!fd_.valid()) throw_system_error("cannot make a memory file", errno);
  // Processes that map the file rely on the seal: pages beyond the end would be a SIGBUS.
  if (::fcntl(fd(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
    throw_system_error("cannot seal a memory file", errno);
  }
}

void MemoryFile::extend_to(std::uint64_t size) {
  if (size <= size_) return;
  while (::ftruncate(fd(), static_cast<off_t>(size)) != 0) {
    if (errno != EINTR) throw_system_error("cannot extend a memory file", errno);
  }
  size_ = size;
}

void MemoryFile::reserve(std::uint64_t offset, std::uint64_t bytes) {
  // Reserves in small pieces, because a signal makes the kernel undo a whole call. In a program
  // with a timer, a large call would never succeed.
  constexpr std::uint64_t kPiece = std::uint64_t{256} << 10;
  for (std::uint64_t done = 0; done < bytes;) {
    const std::uint64_t piece = std::min(kPiece, bytes - done);
    if (::fallocate(fd(), 0, static_cast<off_t>(offset + done), static_cast<off_t>(piece)) == 0) {
      done += piece;
    } else if (errno != EINTR) {
      const int error = errno;
      release(offset, bytes);
      throw_system_error(cannot_reserve(bytes), error);
    }
  }
}

std::byte* MemoryFile::add(std::uint64_t offset, std::uint64_t bytes) {
  check_file_size_limit(offset + bytes, bytes);
  check_available_memory(bytes);
  extend_to(offset + bytes);
  std::byte* address = map_shared(fd(), offset, bytes, false);
  ::madvise(address, bytes, MADV_HUGEPAGE);  // works if the machine's settings allow it
  try {
    fill(offset, bytes, address);
  } catch (...) {
    unmap_shared(reinterpret_cast<std::uint64_t>(address), bytes);
    throw;
  }
  return address;
}

void MemoryFile::restore(std::uint64_t offset, std::uint64_t bytes, std::byte* address) {
  check_available_memory(bytes);
  fill(offset, bytes, address);
}

void MemoryFile::fill(std::uint64_t offset, std::uint64_t bytes, std::byte* address) {
  if (const int error = populate(address, bytes); error != 0) {
    release(offset, bytes);
    throw_system_error(cannot_reserve(bytes), error);
  }
  reserve(offset, bytes);  // costs next to nothing for memory that populate() has reserved
}

void MemoryFile::release(std::uint64_t offset, std::uint64_t bytes) noexcept {
  while (::fallocate(fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                     static_cast<off_t>(bytes)) != 0 &&
         errno == EINTR) {
  }
}

std::byte* map_shared(int fd, std::uint64_t offset, std::uint64_t bytes, bool populated) {
  void* address =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (address == MAP_FAILED) {
    throw_system_error(
        "cannot map " + format_bytes(static_cast<double>(bytes)) + " of shared memory", errno);
  }
  if (populated) populate(address, bytes);  // a failure only makes the first touch slower
  return static_cast<std::byte*>(address);
}

void unmap_shared(std::uint64_t address, std::uint64_t bytes) noexcept {
  ::munmap(reinterpret_cast<void*>(address), bytes);
}

std::uint64_t file_bytes(int fd) {
  struct stat status{};
  if (::fstat(fd, &status) != 0) throw_system_error("cannot read a memory file's size", errno);
  return static_cast<std::uint64_t>(status.st_size);
}

}  // namespace accelerate::detail
