// Memory of this process that the other ranks of the host can reach. What lies in it takes part in
// collectives where it is; everything else is copied first.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "accelerate/comm/shared_memory/arena_segments.h"
#include "accelerate/comm/shared_memory/extent.h"
#include "accelerate/comm/shared_memory/process_fork.h"

namespace accelerate::detail {

/// A memory file that grows by segments, and an allocator over it. A segment's memory is reserved
/// before anything in it is handed out: lack of memory is an error, never a SIGBUS. Thread-safe.
///
/// Freed blocks stay reserved for the next ones, because fresh pages cost five times the copy into
/// them. Segments that are wholly free give their memory back once they are more than twice what
/// is in use and more than 256 MiB.
///
/// Belongs to the process that made it. In a fork of that, allocating is a UsageError, giving
/// blocks back does nothing, and the memory itself is still the parent's.
class SharedArena : public std::enable_shared_from_this<SharedArena> {
 public:
  /// Bytes of an arena, given back when this is destroyed; keeps the arena alive. Move-only.
  class Block {
   public:
    Block() = default;
    Block(Block&& other) noexcept;
    Block& operator=(Block&& other) noexcept;
    ~Block() { reset(); }

    [[nodiscard]] std::byte* data() const { return data_; }
    [[nodiscard]] std::size_t size() const { return extent_.bytes; }
    [[nodiscard]] const SharedExtent& extent() const { return extent_; }
    /// Whether this holds bytes: false once moved from or reset.
    [[nodiscard]] explicit operator bool() const { return data_ != nullptr; }
    /// Gives the bytes back now.
    void reset() noexcept;

   private:
    friend class SharedArena;
    std::shared_ptr<SharedArena> arena_;
    std::byte* data_ = nullptr;
    SharedExtent extent_{};
  };

  /// An arena with one segment of 256 KiB. Throws CommError with what was found and the cure: no
  /// memory, RLIMIT_FSIZE, RLIMIT_NOFILE, a kernel or sandbox without memfd_create; UsageError in a
  /// forked process. Cost: below 1 ms.
  [[nodiscard]] static std::shared_ptr<SharedArena> create();
  ~SharedArena();
  SharedArena(const SharedArena&) = delete;
  SharedArena& operator=(const SharedArena&) = delete;

  /// The memory file. Peers map its segments.
  [[nodiscard]] int fd() const { return segments_.fd(); }

  /// `bytes` bytes, aligned to 64 and, from 64 KiB on, to 4096. They have been written before:
  /// by earlier users, or by the system with zeros. Zero bytes are a block, too. Throws as
  /// create(); then nothing has changed. Cost: below 1 us from free memory; a new segment is zeroed
  /// by the system at about 1 ms a MiB.
  [[nodiscard]] Block allocate(std::size_t bytes);

  /// Where [data, data + bytes) lies when all of it is in one segment; nullopt for other memory.
  /// Takes no lock. Cost: about 10 ns.
  [[nodiscard]] std::optional<SharedExtent> find(const void* data, std::size_t bytes) const {
    return segments_.find(data, bytes);
  }

  /// As at::empty, in the arena: any dtype, strided, on the CPU (else UsageError). Its storage
  /// keeps its block and the arena alive and cannot grow. Throws as allocate().
  [[nodiscard]] at::Tensor empty(at::IntArrayRef sizes, const at::TensorOptions& options);

  /// Where bytes of this arena's file are in this process; null when no segment holds them all.
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
