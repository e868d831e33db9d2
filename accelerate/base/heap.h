// How the C library treats memory that is freed.
#pragma once

namespace accelerate {

/// Makes the heap keep freed memory for the next allocation instead of returning it to the system:
/// freed blocks of up to 32 MiB, and up to 512 MiB at the heap's end. A training step frees and
/// allocates the same megabytes of activations every time. Getting pages from the system costs more
/// than many a kernel: a tenth to a fifth of the step of a small convolutional network.
/// Process-wide. Does nothing where the user has set any of MALLOC_TRIM_THRESHOLD_,
/// MALLOC_MMAP_THRESHOLD_, MALLOC_TOP_PAD_, MALLOC_MMAP_MAX_ or GLIBC_TUNABLES, or where the C
/// library is not glibc. Returns whether the heap keeps freed memory now.
bool keep_freed_memory();

/// Returns the memory freed so far to the system, once. Call it after freeing something large that
/// nothing will replace, such as a model that was split into shards. Cost: milliseconds.
void return_freed_memory();

}  // namespace accelerate
