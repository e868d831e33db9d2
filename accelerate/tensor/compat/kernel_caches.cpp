#include "accelerate/tensor/compat/kernel_caches.h"

#include <cstdlib>

#include "accelerate/base/environment.h"

namespace accelerate::compat {

void bound_kernel_caches() {
  // A step needs a kernel again for each layer of the same shape, so it needs few.
  if (!env_first({"ONEDNN_PRIMITIVE_CACHE_CAPACITY", "DNNL_PRIMITIVE_CACHE_CAPACITY"}))
    setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64", /*overwrite=*/1);
  if (!env("LRU_CACHE_CAPACITY")) setenv("LRU_CACHE_CAPACITY", "16", /*overwrite=*/1);
}

}  // namespace accelerate::compat
