// Shared memory does not survive fork(): two processes would believe that they own the same bytes.
// Code that uses shared memory asks here first.
#pragma once

namespace accelerate::detail {

/// Whether this process was made by fork(), without exec, while one of its ancestors had shared
/// memory in use. Cost: a load.
[[nodiscard]] bool forked() noexcept;

/// Throws UsageError when forked(): only the parent may call `what`, e.g. "all_reduce".
void refuse_after_fork(const char* what);

/// While an object of this class lives, shared memory counts as in use.
class SharedMemoryInUse {
 public:
  SharedMemoryInUse();
  ~SharedMemoryInUse();
  SharedMemoryInUse(const SharedMemoryInUse&) = delete;
  SharedMemoryInUse& operator=(const SharedMemoryInUse&) = delete;
};

}  // namespace accelerate::detail
