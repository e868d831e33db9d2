// How the C library treats memory that is freed.
#pragma once

namespace accelerate {

/// From now on the heap keeps blocks of up to 32 MiB that are freed, and up to 64 MiB at its end,
/// for the next allocation, where the C library would return them to the system. A training step
/// frees and allocates the same megabytes of activations every time, and taking pages back from
/// the system costs more than many a kernel: on a small convolutional network a tenth to a fifth of
/// the step. Process-wide. Does nothing where the user has set any of MALLOC_TRIM_THRESHOLD_,
/// MALLOC_MMAP_THRESHOLD_, MALLOC_TOP_PAD_ or GLIBC_TUNABLES, or where the C library is not
/// glibc. Returns whether the heap does so now.
bool keep_freed_memory();

/// Gives what was freed so far back to the system, once: after something large that nothing will
/// take the place of, such as a model that has become shards. Cost: milliseconds.
void return_freed_memory();

}  // namespace accelerate
