// What happens to memory that is freed: the next step needs it again.
#pragma once

#include <cstddef>

namespace accelerate {

/// Makes the heap keep freed memory for the next allocation instead of returning it to the system:
/// freed blocks of up to 32 MiB, and up to 512 MiB at the heap's end. A training step frees and
/// allocates the same megabytes of activations every time. Getting pages from the system costs more
/// than many a kernel: a tenth to a fifth of the step of a small convolutional network.
/// Process-wide. Does nothing where the user has set any of MALLOC_TRIM_THRESHOLD_,
/// MALLOC_MMAP_THRESHOLD_, MALLOC_TOP_PAD_, MALLOC_MMAP_MAX_ or GLIBC_TUNABLES, or where the C
/// library is not glibc. Returns whether the heap keeps freed memory now.
bool keep_freed_memory();

/// Blocks that glibc does not keep, since they have 32 MiB or more, such as the gradient of a
/// vocabulary. They lie in huge pages where the system gives them. All functions are thread-safe.
namespace large_blocks {

/// Smaller blocks are glibc's: with its header and the alignment, they stay below 32 MiB.
inline constexpr std::size_t kLeast = (std::size_t{32} << 20) - 4096;

/// Returns `bytes` bytes, at an address that is a multiple of 2 MiB. Takes the smallest block that
/// is kept and large enough, unless a quarter of it would lie idle. The bytes are arbitrary. Null if
/// the system has no memory, even after all kept blocks were returned.
[[nodiscard]] void* take(std::size_t bytes);

/// Whether `block` is one that take() gave, and that was not given back.
[[nodiscard]] bool owns(const void* block);

/// Keeps a block of take() for the next one; of all kept blocks at most 512 MiB. The system may
/// take their pages back when memory is short.
void give_back(void* block);

/// How often take() asked the system for memory.
[[nodiscard]] std::size_t times_mapped();

}  // namespace large_blocks

/// Returns the memory freed so far to the system, once. Call it after freeing something large that
/// nothing will replace, such as a model that was split into shards. Cost: milliseconds.
void return_freed_memory();

}  // namespace accelerate
