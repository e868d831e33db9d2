// What the CPU at hand computes with beyond what the library is built for.
#pragma once

#if defined(__x86_64__)
/// Compiles a function for AVX2 and FMA: to be called only where has_avx2().
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
