// Memory of this process that the other ranks of the host can reach. Collectives use tensors in it
// without a copy; all other tensors are copied first.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "accelerate/comm/shared_memory/arena_segments.h"
#include "accelerate/comm/shared_memory/free_extents.h"
#include "accelerate/comm/shared_memory/process_fork.h"

namespace accelerate::detail {

/// A memory file that grows by segments, and an allocator over it. The memory of a segment is
/// reserved before any of it is handed out, so lack of memory is an error and never a SIGBUS.
/// Thread-safe.
///
/// Freed blocks stay reserved for later blocks, because fresh pages cost five times as much as the
/// copy into them. Wholly free segments give their memory back once they hold more than twice the
/// memory in use and more than 256 MiB in total.
///
/// Belongs to the process that made it. In a forked child, allocating is a UsageError, giving
/// blocks back does nothing, and the memory still belongs to the parent.
class SharedArena : public std::enable_shared_from_this<SharedArena> {
 public:
  /// Bytes of an arena, given back when the block is destroyed. Keeps the arena alive. Move-only.
  class Block {
   public:
    Block() = default;
    Block(Block&& other) noexcept;
    Block& operator=(Block&& other) noexcept;
    ~Block() { reset(); }

    [[nodiscard]] std::byte* data() const { return data_; }
    [[nodiscard]] std::size_t size() const { return extent_.bytes; }
    [[nodiscard]] const SharedExtent& extent() const { return extent_; }
    /// Whether the block holds bytes: false once moved from or reset.
    [[nodiscard]] explicit operator bool() const { return data_ != nullptr; }
    /// Gives the bytes back now.
    void reset() noexcept;

   private:
    friend class SharedArena;
    std::shared_ptr<SharedArena> arena_;
    std::byte* data_ = nullptr;
    SharedExtent extent_{};
  };

  /// Makes an arena with one segment of 256 KiB. Throws CommError with the cause and the cure: no
  /// memory, a limit that is too low (RLIMIT_FSIZE, RLIMIT_NOFILE), or a kernel or sandbox without
  /// memfd_create. Throws UsageError in a forked process. Cost: below 1 ms.
  [[nodiscard]] static std::shared_ptr<SharedArena> create();
  ~SharedArena();
  SharedArena(const SharedArena&) = delete;
  SharedArena& operator=(const SharedArena&) = delete;

  /// The memory file. Peers map its segments.
  [[nodiscard]] int fd() const { return segments_.fd(); }

  /// Returns `bytes` bytes, aligned to 64 and, from 64 KiB on, to 4096. Their pages are present:
  /// they hold zeros from the system or data of an earlier block. `bytes` may be zero. Throws as
  /// create(); then nothing has changed. Cost: below 1 us from free memory; the system zeroes a new
  /// segment at about 1 ms per MiB.
  [[nodiscard]] Block allocate(std::size_t bytes);

  /// Returns where [data, data + bytes) lies if all of it is in one segment; nullopt for other
  /// memory. Takes no lock. Cost: about 10 ns.
  [[nodiscard]] std::optional<SharedExtent> find(const void* data, std::size_t bytes) const {
    return segments_.find(data, bytes);
  }

  /// As at::empty, in the arena: any dtype, strided, on the CPU (else UsageError). The storage
  /// keeps its block and the arena alive, and cannot grow. Throws as allocate().
  [[nodiscard]] at::Tensor empty(at::IntArrayRef sizes, const at::TensorOptions& options);

  /// Returns the address in this process of bytes of the arena's file; null when no segment holds
  /// them all.
  [[nodiscard]] std::byte* address_of(const SharedExtent& extent) const {
    return segments_.address_of(extent);
  }

  /// Memory taken from the system. At least bytes_in_use().
  [[nodiscard]] std::size_t bytes_reserved() const { return segments_.bytes_reserved(); }
  /// Memory in blocks, each rounded up to its alignment.
  [[nodiscard]] std::size_t bytes_in_use() const { return segments_.bytes_in_use(); }

 private:
  class TensorAllocator;

  SharedArena();
  void give_back(const SharedExtent& extent) noexcept;

  SharedMemoryInUse in_use_;
  ArenaSegments segments_;
  std::unique_ptr<TensorAllocator> tensors_;
};

}  // namespace accelerate::detail
