// How many compiled kernels oneDNN keeps. A kernel fits one shape, and a product of matrices takes a
// megabyte: where the number of tokens changes with every batch, oneDNN's own 1,024 would gather a
// gigabyte. A step needs a kernel again for each layer of the same shape, so it needs few.
//
// oneDNN takes these numbers from the environment only, at its first call. They are set when the
// library is loaded, before `main`: later, another thread may be reading the environment, and
// `setenv` may move it meanwhile.
#include <cstdlib>

#include "accelerate/base/environment.h"

namespace accelerate {
namespace {

[[gnu::constructor]] void bound_kernel_caches() {
  if (!env_first({"ONEDNN_PRIMITIVE_CACHE_CAPACITY", "DNNL_PRIMITIVE_CACHE_CAPACITY"}))
    setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64", /*overwrite=*/1);
  if (!env("LRU_CACHE_CAPACITY")) setenv("LRU_CACHE_CAPACITY", "16", /*overwrite=*/1);
}

}  // namespace
}  // namespace accelerate
