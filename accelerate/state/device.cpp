#include "accelerate/state/device.h"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <torch/cuda.h>

#include <algorithm>
#include <string>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/launch/hardware.h"

namespace accelerate {
namespace {

c10::Device parse_device(const std::string& text) {
  try {
    return c10::Device(text);
  } catch (const c10::Error&) {
    throw_with_context<ConfigError>("ACCELERATE_TORCH_DEVICE is '" + text +
                                    "'; allowed are cpu, cuda and cuda:N");
  }
}

c10::Device asked_device(const std::string& text, int local_rank) {
  c10::Device device = parse_device(text);
  if (device.is_cpu()) return device;
  const int gpus = torch::cuda::device_count();
  if (!device.is_cuda() || gpus == 0 || (device.has_index() && device.index() >= gpus)) {
    throw ConfigError("ACCELERATE_TORCH_DEVICE is '" + text + "', but this program sees " +
                      std::to_string(gpus) +
                      " GPUs. Is LibTorch a CUDA build, and what does "
                      "CUDA_VISIBLE_DEVICES say?");
  }
  return device.has_index()
             ? device
             : c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(local_rank % gpus));
}

}  // namespace

c10::Device choose_device(bool cpu, int local_rank) {
  if (const auto asked = env("ACCELERATE_TORCH_DEVICE")) return asked_device(*asked, local_rank);
  if (cpu || !torch::cuda::is_available()) return c10::kCPU;
  return {c10::kCUDA, static_cast<c10::DeviceIndex>(local_rank % torch::cuda::device_count())};
}

void share_cores(int local_world_size) {
  if (env("OMP_NUM_THREADS")) return;
  at::set_num_threads(std::max(1, physical_cores() / std::max(1, local_world_size)));
}

}  // namespace accelerate
