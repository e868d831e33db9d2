// Instructions that this CPU has beyond the ones that the library is compiled for.
#pragma once

#if defined(__x86_64__)
/// Compiles a function for AVX2 and FMA. Call it only where has_avx2() is true.
#define ACCELERATE_AVX2 __attribute__((target("avx2,fma")))
#else
#define ACCELERATE_AVX2
#endif

namespace accelerate::detail {

[[nodiscard]] inline bool has_avx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

}  // namespace accelerate::detail
