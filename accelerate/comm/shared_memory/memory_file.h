// A file that exists in memory only and that other processes map: memfd_create(2). It has no name
// in any folder, /dev/shm included. It vanishes with the last process that uses it, however that
// process ends.
#pragma once

#include <cstddef>
#include <cstdint>

#include "accelerate/base/descriptor.h"

namespace accelerate::detail {

/// A memory file of this process. Offsets and sizes are multiples of kPageBytes. Not thread-safe.
/// Throws CommError with the cause and the cure: no memory, a limit that is too low (RLIMIT_FSIZE,
/// RLIMIT_NOFILE, RLIMIT_AS), or a kernel or sandbox without memfd_create.
class MemoryFile {
 public:
  static constexpr std::uint64_t kPageBytes = 4096;

  MemoryFile();

  [[nodiscard]] int fd() const { return fd_.get(); }

  /// Makes [offset, offset + bytes) part of the file, reserves memory for it and maps it. If there
  /// is not enough memory, nothing is kept, and no process is killed later. Cost: zeroing the
  /// bytes, about 1 ms per MiB.
  [[nodiscard]] std::byte* add(std::uint64_t offset, std::uint64_t bytes);

  /// Gives the memory of mapped bytes back to the system. The bytes stay mapped. A process that
  /// touches them before they are restored reads zeros and may be killed by SIGBUS.
  void release(std::uint64_t offset, std::uint64_t bytes) noexcept;
  /// Reserves memory again for released bytes, which are mapped at `address`. Cost: as add().
  void restore(std::uint64_t offset, std::uint64_t bytes, std::byte* address);

 private:
  void extend_to(std::uint64_t size);
  void fill(std::uint64_t offset, std::uint64_t bytes, std::byte* address);
  void reserve(std::uint64_t offset, std::uint64_t bytes);

  Descriptor fd_;
  std::uint64_t size_ = 0;
};

/// Maps bytes of a memory file, our own or a peer's, for reading and writing. `populated` fills the
/// page tables, so that the first touch causes no page fault; only for reserved memory. Throws
/// CommError.
[[nodiscard]] std::byte* map_shared(int fd, std::uint64_t offset, std::uint64_t bytes,
                                    bool populated);
void unmap_shared(std::uint64_t address, std::uint64_t bytes) noexcept;

/// Returns the size in bytes of the file behind `fd`. Throws CommError.
[[nodiscard]] std::uint64_t file_bytes(int fd);

}  // namespace accelerate::detail
