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
                                     "MALLOC_TOP_PAD_", "MALLOC_MMAP_MAX_", "GLIBC_TUNABLES"};
  if (std::ranges::any_of(kOfTheUser, [](const char* name) { return std::getenv(name); })) {
    return false;
  }
  constexpr int kMiB = 1 << 20;
  // glibc keeps small freed blocks in lists, unmerged, and they separate the large free blocks
  // around them. Without these lists fine-tuning MiniLM keeps some 20 MiB less.
  mallopt(M_MXFAST, 0);
  // Set both or neither: setting one ends glibc's automatic adjustment of both, which is better
  // than setting only one. 32 MiB is the most that glibc accepts.
  return mallopt(M_MMAP_THRESHOLD, 32 * kMiB) == 1 && mallopt(M_TRIM_THRESHOLD, 512 * kMiB) == 1;
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
