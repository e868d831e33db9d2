#include "accelerate/comm/shared_memory/kernels.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <stdexcept>

// ThreadSanitizer does not see stores that bypass the caches.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define ACCELERATE_STREAMS
#include <emmintrin.h>
#endif

#include "accelerate/base/machine/compiled_versions.h"
#include "accelerate/comm/shared_memory/control_block.h"
#include "accelerate/comm/shared_memory/kernel_table.h"

namespace accelerate::detail {
namespace {

static_assert(sizeof(unsigned long) == sizeof(std::size_t) && sizeof(long) == 8);

#if defined(__x86_64__) && !defined(ACCELERATE_BASELINE_KERNELS)
#define ACCELERATE_AVX_KERNELS
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
}
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
#endif

constexpr CompiledVersion<KernelTable> kVersions[] = {
    {"baseline", &kernels_baseline, [] { return true; }},
#ifdef ACCELERATE_AVX_KERNELS
    {"avx2", &kernels_avx2, has_avx2},
    {"avx512", &kernels_avx512, has_avx512},
#endif
};

CompiledVersions<KernelTable>& compiled() {
  static CompiledVersions<KernelTable> versions{kVersions};
  return versions;
}

// In the order of KernelType.
constexpr std::array kRowTypes = {
    at::ScalarType::Float, at::ScalarType::Double, at::ScalarType::Half, at::ScalarType::BFloat16,
    at::ScalarType::Bool,  at::ScalarType::Byte,   at::ScalarType::Char, at::ScalarType::Short,
    at::ScalarType::Int,   at::ScalarType::Long};
static_assert(kRowTypes.size() == kNumKernelTypes && static_cast<int>(ReduceOp::bxor) == kBxor);

// Returns kNumKernelTypes if no kernel takes `dtype`.
std::size_t row_of(at::ScalarType dtype) {
  return static_cast<std::size_t>(std::ranges::find(kRowTypes, dtype) - kRowTypes.begin());
}

#ifdef ACCELERATE_STREAMS
// Copies whole cache lines. Four stores fill a buffer of the processor, which then writes the line
// without reading it first.
void stream_lines(std::byte* destination, const std::byte* source, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += kCacheLine) {
    for (std::size_t part = at; part < at + kCacheLine; part += sizeof(__m128i)) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(destination + part),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + part)));
    }
  }
  _mm_sfence();  // a release store does not wait for such stores
}
#endif

}  // namespace

bool has_kernel(at::ScalarType dtype) {
  return row_of(dtype) != kNumKernelTypes;
}

void reduce_elements(std::span<std::byte* const> destinations,
                     std::span<const std::byte* const> sources, std::size_t count,
                     at::ScalarType dtype, ReduceOp op) {
  const KernelTable& table = compiled().in_use();
  const ReduceLoop loop =
      has_kernel(dtype) ? table.loops[row_of(dtype)][static_cast<std::size_t>(op)] : nullptr;
  if (loop == nullptr || destinations.empty() || sources.empty()) {
    throw std::logic_error("reduce_elements: a caller has not checked its arguments");
  }
  loop({reinterpret_cast<void* const*>(destinations.data()), destinations.size(),
        reinterpret_cast<const void* const*>(sources.data()), sources.size(), count});
}

void copy_streaming(std::byte* destination, const std::byte* source, std::size_t bytes) {
#ifdef ACCELERATE_STREAMS
  const std::size_t past_line = reinterpret_cast<std::uintptr_t>(destination) % kCacheLine;
  const std::size_t head = std::min(bytes, past_line == 0 ? 0 : kCacheLine - past_line);
  const std::size_t lines = (bytes - head) / kCacheLine * kCacheLine;
  std::memcpy(destination, source, head);
  stream_lines(destination + head, source + head, lines);
  std::memcpy(destination + head + lines, source + head + lines, bytes - head - lines);
#else
  std::memcpy(destination, source, bytes);
#endif
}

std::vector<std::string_view> kernel_versions() {
  return compiled().names();
}

bool choose_kernels(std::string_view name) {
  return compiled().choose(name);
}

}  // namespace accelerate::detail
