// A file that exists in memory only and that other processes map: memfd_create(2). It has no name
// in any folder, /dev/shm included, and is gone with its last process, however that ends.
#pragma once

#include <cstddef>
#include <cstdint>

#include "accelerate/base/descriptor.h"

namespace accelerate::detail {

/// Throws CommError with what was found and the cure: no memory, RLIMIT_FSIZE, RLIMIT_NOFILE,
/// RLIMIT_AS, a kernel or sandbox without memfd_create. Offsets and sizes are multiples of
/// kPageBytes. Not thread-safe.
class MemoryFile {
 public:
  static constexpr std::uint64_t kPageBytes = 4096;

  MemoryFile();

  [[nodiscard]] int fd() const { return fd_.get(); }

  /// Makes [offset, offset + bytes) part of the file, reserves memory for it and maps it. Where
  /// there is not enough memory nothing is kept, and no process is killed for it later. Cost: that
  /// of zeroing the bytes, about 1 ms a MiB.
  [[nodiscard]] std::byte* add(std::uint64_t offset, std::uint64_t bytes);

  /// Gives the memory of mapped bytes back to the system. They stay mapped; whoever touches them
  /// before they are restored reads zeros and may be killed by SIGBUS.
  void release(std::uint64_t offset, std::uint64_t bytes) noexcept;
  /// Reserves released bytes, mapped at `address`, again. Cost: as add().
  void restore(std::uint64_t offset, std::uint64_t bytes, std::byte* address);

 private:
  void extend_to(std::uint64_t size);
  void fill(std::uint64_t offset, std::uint64_t bytes, std::byte* address);
  void reserve(std::uint64_t offset, std::uint64_t bytes);

  Descriptor fd_;
  std::uint64_t size_ = 0;
};

/// Maps bytes of a memory file, our own or a peer's, for reading and writing. `populated`: with
/// the page tables filled, so that the first touch costs no fault; for memory that is reserved.
/// Throws CommError.
[[nodiscard]] std::byte* map_shared(int fd, std::uint64_t offset, std::uint64_t bytes,
                                    bool populated);
void unmap_shared(std::uint64_t address, std::uint64_t bytes) noexcept;

/// Size of the file behind `fd`, in bytes. Throws CommError.
[[nodiscard]] std::uint64_t file_bytes(int fd);

}  // namespace accelerate::detail
