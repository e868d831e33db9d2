#include "accelerate/base/heap.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace accelerate {

bool keep_freed_memory() {
#ifdef __GLIBC__
  constexpr std::array kOfTheUser = {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_",
                                     "MALLOC_TOP_PAD_", "GLIBC_TUNABLES"};
  if (std::ranges::any_of(kOfTheUser, [](const char* name) { return std::getenv(name); })) {
    return false;
  }
  constexpr int kMiB = 1 << 20;
  // Small blocks that lie in lists of their own are walls between the large ones that are free
  // around them: without such lists fine-tuning MiniLM keeps some 20 MiB less.
  mallopt(M_MXFAST, 0);
  // Both or neither: either of them ends glibc's own adjustment of both, which alone is better than
  // one of them. 32 MiB is the most that glibc takes.
  return mallopt(M_MMAP_THRESHOLD, 32 * kMiB) == 1 && mallopt(M_TRIM_THRESHOLD, 64 * kMiB) == 1;
#else
  return false;
#endif
}

void return_freed_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace accelerate
