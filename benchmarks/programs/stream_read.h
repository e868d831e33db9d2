// How fast this machine reads memory: the bound of what reads its weights once.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>

#include "benchmarks/programs/measure.h"

namespace bench {

#if defined(__x86_64__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
inline std::uint64_t
sum_of_bytes(const char* bytes, std::int64_t count, std::int64_t ahead) {
  using Words = std::uint64_t __attribute__((vector_size(64)));
  Words sums[4] = {};
  for (std::int64_t i = 0; i + std::int64_t{sizeof sums} <= count; i += sizeof sums) {
#pragma GCC unroll 4
    for (std::size_t u = 0; u < 4; ++u) {
      Words words;
      std::memcpy(&words, bytes + i + u * sizeof words, sizeof words);
      __builtin_prefetch(bytes + i + u * sizeof words + ahead);
      sums[u] += words;
    }
  }
  const Words all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  return all[0] ^ all[3] ^ all[5] ^ all[7];
}

/// Measures reads of memory by at::get_num_threads() threads. A part of the buffer is read again when
/// the other parts, far larger than the caches, have been read in between.
class StreamRead {
 public:
  /// A part has the size of what is compared: other programs slow long reads down more than short.
  explicit StreamRead(std::size_t part_bytes)
      : part_bytes_(static_cast<std::int64_t>(part_bytes)),
        // An odd number, so that both ways read all parts.
        parts_(kLeastBytes / part_bytes_ / 2 * 2 + 3),
        buffer_(at::full({part_bytes_ * parts_}, kByte, at::kByte)) {}

  /// Reads two more parts, each in one of two ways, and returns the most bytes a second so far.
  double bytes_per_second() {
    for (const std::int64_t ahead : {0, 8192}) {
      const at::Tensor part = next_part();
      const double seconds = seconds_of([&] { read(part, ahead); });
      best_ = std::max(best_, static_cast<double>(part_bytes_) / seconds);
    }
    return best_;
  }

  /// Returns the part whose turn it is to be read, uint8 {part_bytes}. Some memory is faster than
  /// other memory of a machine, so what is compared should read parts too.
  at::Tensor next_part() {
    next_ = (next_ + 1) % parts_;
    return buffer_.narrow(0, next_ * part_bytes_, part_bytes_);
  }

 private:
  static constexpr std::int64_t kLeastBytes = 512 << 20;
  static constexpr int kByte = 0x3c;  // Four of them are the fp32 number 0.011.

  void read(const at::Tensor& part, std::int64_t ahead) {
    const char* bytes = static_cast<const char*>(part.const_data_ptr());
    at::parallel_for(0, part_bytes_, part_bytes_ / at::get_num_threads(),
                     [&](std::int64_t begin, std::int64_t end) {
                       sum_ += sum_of_bytes(bytes + begin, end - begin, ahead);
                     });
  }

  std::int64_t part_bytes_, parts_, next_ = 0;
  at::Tensor buffer_;
  std::atomic<std::uint64_t> sum_ = 0;  // Kept, so that the reads are not optimised away.
  double best_ = 0;
};

}  // namespace bench
