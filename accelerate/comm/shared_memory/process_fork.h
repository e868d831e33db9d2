// Memory that processes share does not survive fork(): two processes would believe that they own
// the same bytes. Whatever uses it asks here first.
#pragma once

namespace accelerate::detail {

/// Whether this process was made by fork(), without exec, while one of its ancestors had shared
/// memory in use. Cost: a load.
[[nodiscard]] bool forked() noexcept;

/// Throws UsageError when forked(): `what` ("all_reduce") is for the process that forked.
void refuse_after_fork(const char* what);

/// While one of these lives, shared memory counts as in use.
class SharedMemoryInUse {
 public:
  SharedMemoryInUse();
  ~SharedMemoryInUse();
  SharedMemoryInUse(const SharedMemoryInUse&) = delete;
  SharedMemoryInUse& operator=(const SharedMemoryInUse&) = delete;
};

}  // namespace accelerate::detail
