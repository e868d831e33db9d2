#include "accelerate/watch/profiler/memory_meter.h"

#include <ATen/DeviceAccelerator.h>
#include <ATen/core/CachingHostAllocator.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <vector>

#include "accelerate/base/error.h"

namespace accelerate {
namespace {

// Lines of /proc/self files read "VmRSS:     1234 kB".
std::optional<std::int64_t> bytes_of_line(const std::string& line, const std::string& name) {
  if (line.compare(0, name.size() + 1, name + ":") != 0) return std::nullopt;
  return std::stoll(line.substr(name.size() + 1)) * 1024;
}

std::int64_t read_proc(const char* path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (const auto bytes = bytes_of_line(line, name)) return *bytes;
  }
  throw Error(std::string(path) + " does not tell " + name +
              ": memory can be measured where /proc of Linux is mounted");
}

// Returns LibTorch's allocator of `device`. Returns null on the CPU and before the device's first
// use, which this call must not trigger.
at::DeviceAllocator* allocator_of(c10::Device device) {
  if (device.is_cpu() || at::getAccelerator() != device.type()) return nullptr;
  auto* allocator = at::getDeviceAllocator(device.type());
  return allocator->initialized() ? allocator : nullptr;
}

c10::DeviceIndex index_of(c10::Device device) {
  return device.has_index() ? device.index() : at::accelerator::getDeviceIndex();
}

// Writing "5" sets VmHWM to VmRSS.
bool reset_host_peak() {
  std::ofstream file("/proc/self/clear_refs");
  file << 5 << std::flush;
  return file.good();
}

}  // namespace

namespace detail {

// What one meter has seen. The counters belong to the process, so whoever resets them first lets
// every live watch look.
struct MemoryWatch {
  explicit MemoryWatch(c10::Device device);
  ~MemoryWatch();
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;
  void look();

  c10::Device device;
  MemoryReport seen;
  std::int64_t earlier_peak_bytes = 0;  // Of the process, if the kernel could not reset it.
};

}  // namespace detail

namespace {

std::mutex watches_mutex;
std::vector<detail::MemoryWatch*>& live_watches() {
  static std::vector<detail::MemoryWatch*> live;
  return live;
}

bool reset_with_lock_held(c10::Device device) {
  for (auto* watch : live_watches()) watch->look();
  if (auto* allocator = allocator_of(device)) allocator->resetPeakStats(index_of(device));
  return reset_host_peak();
}

std::string sentence(const std::string& what, std::int64_t before, std::int64_t now,
                     std::int64_t peak) {
  return what + ": " + convert_bytes(before) + " before, " + convert_bytes(now) + " now, " +
         convert_bytes(peak) + " at the peak";
}

}  // namespace

namespace detail {

MemoryWatch::MemoryWatch(c10::Device watched) : device(watched) {
  const std::lock_guard lock(watches_mutex);
  if (!reset_with_lock_held(device)) earlier_peak_bytes = host_memory().peak_resident_bytes;
  const auto now = host_memory().resident_bytes;
  const auto on_device = device_memory(device).allocated_bytes;
  seen = {now, now, now, on_device, on_device, on_device};
  live_watches().push_back(this);
}

MemoryWatch::~MemoryWatch() {
  const std::lock_guard lock(watches_mutex);
  std::erase(live_watches(), this);
}

void MemoryWatch::look() {
  const HostMemory host = host_memory();
  const DeviceMemory on_device = device_memory(device);
  seen.now_bytes = host.resident_bytes;
  seen.device_now_bytes = on_device.allocated_bytes;
  const bool news = host.peak_resident_bytes > earlier_peak_bytes;
  seen.peak_bytes =
      std::max({seen.peak_bytes, seen.now_bytes, news ? host.peak_resident_bytes : 0});
  seen.device_peak_bytes = std::max(seen.device_peak_bytes, on_device.peak_allocated_bytes);
}

}  // namespace detail

HostMemory host_memory() {
  return {read_proc("/proc/self/status", "VmRSS"), read_proc("/proc/self/status", "VmHWM")};
}

std::int64_t proportional_host_bytes() {
  return read_proc("/proc/self/smaps_rollup", "Pss");
}

DeviceMemory device_memory(c10::Device device) {
  auto* allocator = allocator_of(device);
  if (allocator == nullptr) return {};
  const auto stats = allocator->getDeviceStats(index_of(device));
  return {stats.allocated_bytes[0].current, stats.allocated_bytes[0].peak,
          stats.reserved_bytes[0].current};
}

bool reset_peak_memory(c10::Device device) {
  const std::lock_guard lock(watches_mutex);
  return reset_with_lock_held(device);
}

void clear_device_cache() {
  if (const auto type = at::getAccelerator()) {
    auto* allocator = at::getDeviceAllocator(*type);
    if (allocator->initialized()) {
      allocator->emptyCache();
      at::getHostAllocator(*type)->empty_cache();  // Page-locked memory.
    }
  }
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

std::string convert_bytes(std::int64_t bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; std::abs(value) >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return text.data();
}

std::string to_string(const MemoryReport& report) {
  std::string text = sentence("host", report.before_bytes, report.now_bytes, report.peak_bytes);
  if (report.device_peak_bytes > 0) {
    text += "; " + sentence("device", report.device_before_bytes, report.device_now_bytes,
                            report.device_peak_bytes);
  }
  return text;
}

struct MemoryMeter::Impl {
  Impl(c10::Device device, std::function<void(const MemoryReport&)> callback)
      : watch(device), at_end(std::move(callback)) {}
  detail::MemoryWatch watch;
  std::function<void(const MemoryReport&)> at_end;
};

MemoryMeter::MemoryMeter(c10::Device device, std::function<void(const MemoryReport&)> at_end)
    : impl_(std::make_unique<Impl>(device, std::move(at_end))) {}

MemoryMeter::~MemoryMeter() {
  try {
    if (impl_->at_end) impl_->at_end(read());
  } catch (...) {
    // A report that cannot be delivered must not end the program.
  }
}

MemoryReport MemoryMeter::read() const {
  const std::lock_guard lock(watches_mutex);
  impl_->watch.look();
  return impl_->watch.seen;
}

}  // namespace accelerate
