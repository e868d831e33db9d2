// Measures how much memory the process uses, on the host and on its device, and frees it.
//
//   MemoryMeter meter(accelerator.device());
//   train_epoch();
//   accelerator.print(to_string(meter.read()));  // host: 412.0 MiB before, 428.5 MiB now, …
//
// Host figures come from the kernel (/proc/self), device figures from LibTorch's caching allocator.
// Device figures are 0 without a device. All are bytes.
// Source: the memory example of Hugging Face Accelerate.
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

/// Local. Cost: reads one small file. Throws Error if /proc is not mounted.
[[nodiscard]] HostMemory host_memory();
/// Returns this process's share of the pages that it has in memory (PSS). A page that n processes
/// share counts as 1/n, so the sum over the ranks of a machine is what they use together. Cost:
/// milliseconds, since the kernel walks all mappings. Throws Error if the kernel does not report
/// it.
[[nodiscard]] std::int64_t proportional_host_bytes();
/// Returns 0 for every field on the CPU and before the device was first used.
[[nodiscard]] DeviceMemory device_memory(c10::Device device);

/// Sets the peaks to the present use. Live MemoryMeters keep the peaks they have seen. Returns
/// whether the kernel allows it for the host.
bool reset_peak_memory(c10::Device device = c10::kCPU);

/// Returns unused memory to the system: the device's cache, the cache of pinned memory, and the
/// heap. Live tensors are not touched. Cost: milliseconds, and the next allocations are slower.
void clear_device_cache();

/// Drops every object by assigning an empty one, and returns the memory to the system. Module
/// holders become null, tensors undefined, containers empty. Objects that are still referenced
/// elsewhere stay.
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

/// What happened between a meter's construction and a reading.
struct MemoryReport {
  std::int64_t before_bytes = 0;
  std::int64_t now_bytes = 0;
  /// The highest in between. If the kernel cannot reset its peak (see reset_peak_memory), this is a
  /// lower bound: only use beyond the process's earlier peak is seen.
  std::int64_t peak_bytes = 0;
  std::int64_t device_before_bytes = 0;
  std::int64_t device_now_bytes = 0;
  std::int64_t device_peak_bytes = 0;

  [[nodiscard]] std::int64_t used_bytes() const { return now_bytes - before_bytes; }
  [[nodiscard]] std::int64_t peaked_bytes() const { return peak_bytes - before_bytes; }
};

/// Returns "host: 412.0 MiB before, 428.5 MiB now, 902.1 MiB at the peak", followed by the same for
/// the device if it was used.
[[nodiscard]] std::string to_string(const MemoryReport& report);

/// Formats bytes with powers of 1024 and one decimal: 1536 → "1.5 KiB". Keeps a negative sign.
[[nodiscard]] std::string convert_bytes(std::int64_t bytes);

/// Measures from its construction on. Meters nest. They share the peak counters, which belong to
/// the process. Thread-safe, but allocations of other threads count too.
class [[nodiscard]] MemoryMeter {
 public:
  /// When destroyed, calls `at_end`, if given, with the last reading. Exceptions of `at_end` are
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
