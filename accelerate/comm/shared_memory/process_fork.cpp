#include "accelerate/comm/shared_memory/process_fork.h"

#include <pthread.h>

#include <atomic>
#include <mutex>
#include <string>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"

namespace accelerate::detail {
namespace {

std::atomic<int> in_use{0};
std::atomic<bool> was_forked{false};

// Runs in the child before fork() returns there, so it may use only atomics.
void in_the_child() {
  if (in_use.load(std::memory_order_relaxed) > 0) was_forked.store(true, std::memory_order_relaxed);
}

}  // namespace

bool forked() noexcept {
  return was_forked.load(std::memory_order_relaxed);
}

void refuse_after_fork(const char* what) {
  if (!forked()) return;
  throw UsageError(std::string(what) +
                       " was called in a process made by fork() after its parent had begun to use "
                       "shared memory, "
                       "which still belongs to the parent. Fork before the Accelerator is made, or "
                       "start the child "
                       "as a program of its own (fork and exec, posix_spawn).",
                   error_name::kProcessForked);
}

SharedMemoryInUse::SharedMemoryInUse() {
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, in_the_child); });
  in_use.fetch_add(1, std::memory_order_relaxed);
}

SharedMemoryInUse::~SharedMemoryInUse() {
  in_use.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace accelerate::detail
