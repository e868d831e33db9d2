// Keeps the memory of large tensors of the CPU from step to step.
#pragma once

namespace accelerate::compat {

/// Makes LibTorch take tensors of 32 MiB and more from large_blocks (base/heap.h), and calls
/// keep_freed_memory() for the others. Process-wide, for the rest of the process. Does nothing where
/// keep_freed_memory() does nothing, or where the program has set an allocator of its own. LibTorch
/// sets an allocator without a lock: call this while no other thread makes tensors.
void keep_freed_tensors();

}  // namespace accelerate::compat
