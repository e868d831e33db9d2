// Keeps the memory of large tensors of the CPU from step to step.
#pragma once

namespace accelerate::compat {

/// Makes LibTorch take tensors of more than 32 MiB from large_blocks (base/heap.h), and calls
/// keep_freed_memory() for the others. Process-wide, for the rest of the process. Does nothing where
/// keep_freed_memory() does nothing, or where the program has set an allocator of its own.
void keep_freed_tensors();

}  // namespace accelerate::compat
