// How much memory the process uses, on the host and on its device, and how to give it back.
//
//   MemoryMeter meter(accelerator.device());
//   train_epoch();
//   accelerator.print(to_string(meter.read()));   // host: 412.0 MiB before, 428.5 MiB now, …
//
// Host figures come from the kernel (/proc/self), device figures from LibTorch's caching allocator;
// without one they are 0. All bytes. Source: the memory example of Hugging Face Accelerate.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace accelerate {

/// Pages of this process that are in memory.
struct HostMemory {
  std::int64_t resident_bytes = 0;       ///< Now (VmRSS); shared pages count in every process.
  std::int64_t peak_resident_bytes = 0;  ///< Highest since the start or the last reset (VmHWM).
};

/// What LibTorch's allocator has handed out on a device.
struct DeviceMemory {
  std::int64_t allocated_bytes = 0;       ///< In tensors now.
  std::int64_t peak_allocated_bytes = 0;  ///< Highest since the start or the last reset.
  std::int64_t reserved_bytes = 0;        ///< Taken from the device: in tensors or in the cache.
};

/// Local. Cost: reads one small file. Throws Error where /proc is not mounted.
[[nodiscard]] HostMemory host_memory();
/// This process's share of the pages that it has in memory (PSS): a page shared by n processes
/// counts as 1/n, so that the sum over the ranks of a machine is what they take together. Cost:
/// milliseconds, the kernel walks all mappings. Throws Error where the kernel does not tell.
[[nodiscard]] std::int64_t proportional_host_bytes();
/// All 0 on the CPU and before the device was first used.
[[nodiscard]] DeviceMemory device_memory(c10::Device device);

/// Peaks begin anew at what is used now. MemoryMeters that are alive do not lose theirs. Returns
/// whether the kernel allows it for the host.
bool reset_peak_memory(c10::Device device = c10::kCPU);

/// Hands memory that nothing uses back to the system: the device's cache, pinned memory's, and the
/// heap's. Tensors that are alive are not touched. Cost: milliseconds, and the next allocations are
/// slower.
void clear_device_cache();

/// Drops every object, by assigning an empty one (modules' holders become null, tensors undefined,
/// containers empty), and hands the memory back. What others still refer to stays.
template <typename... Objects>
void release_memory(Objects&... objects) {
  const auto drop = []<typename T>(T& object) {
    if constexpr (requires { object = nullptr; }) {
      object = nullptr;
    } else {
      object = T();
    }
  };
  (drop(objects), ...);
  clear_device_cache();
}

/// What happened between the begin of a meter and a reading.
struct MemoryReport {
  std::int64_t before_bytes = 0;
  std::int64_t now_bytes = 0;
  /// The highest in between. Where the kernel does not reset its peak (see reset_peak_memory), only
  /// what exceeds the earlier peak of the process is known, and this is a lower bound.
  std::int64_t peak_bytes = 0;
  std::int64_t device_before_bytes = 0;
  std::int64_t device_now_bytes = 0;
  std::int64_t device_peak_bytes = 0;

  [[nodiscard]] std::int64_t used_bytes() const { return now_bytes - before_bytes; }
  [[nodiscard]] std::int64_t peaked_bytes() const { return peak_bytes - before_bytes; }
};

/// "host: 412.0 MiB before, 428.5 MiB now, 902.1 MiB at the peak", and the same of the device when
/// it was used.
[[nodiscard]] std::string to_string(const MemoryReport& report);

/// 1536 → "1.5 KiB"; powers of 1024, one decimal. Negative numbers keep their sign.
[[nodiscard]] std::string convert_bytes(std::int64_t bytes);

/// Measures from its construction on. Meters nest; the peak counters, which belong to the process,
/// are shared between them. Thread-safe, but what other threads allocate counts too.
class [[nodiscard]] MemoryMeter {
 public:
  /// At the end of its life calls `at_end`, if given, with the last reading; what that throws is
  /// dropped.
  explicit MemoryMeter(c10::Device device = c10::kCPU,
                       std::function<void(const MemoryReport&)> at_end = {});
  ~MemoryMeter();
  MemoryMeter(const MemoryMeter&) = delete;
  MemoryMeter& operator=(const MemoryMeter&) = delete;

  [[nodiscard]] MemoryReport read() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accelerate
