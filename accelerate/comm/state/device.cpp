#include "accelerate/comm/state/device.h"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <torch/cuda.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/logger.h"
#include "accelerate/base/machine/cpu_affinity.h"
#include "accelerate/base/machine/gpus.h"
#include "accelerate/base/machine/topology.h"

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

// Whether the launcher has bound this process: it lists the cores in ACCELERATE_CPU_CORES. A mask
// that differs from the list was inherited from an outer launch.
bool bound_by_launcher(const CpuList& allowed) {
  return env("ACCELERATE_CPU_CORES") == cpu_list_text(allowed);
}

bool bind(const CoreShare& share) {
  const bool done = bind_process(share);
  get_logger("accelerate")
      .info((done ? "this rank keeps to " : "the system refuses to bind to ") + to_string(share),
            {.main_process_only = false});
  return done;
}

// Binds this process to the allowed CPUs of the GPU's node. Ranks whose GPUs share a node share its
// CPUs.
void keep_near(c10::Device device, const CpuList& allowed) {
  const auto gpus = visible_gpus();
  const auto index = static_cast<std::size_t>(std::max<int>(device.index(), 0));
  if (index >= gpus.size()) return;
  CpuList cpus;
  std::ranges::set_intersection(cpus_near(gpus[index]), allowed, std::back_inserter(cpus));
  if (cpus.empty()) return;
  const auto cores = static_cast<int>(cpu_cores({}, cpus).size());
  bind({.cpus = std::move(cpus), .cores = cores, .node = std::nullopt});
}

std::vector<CoreShare> shares_of_this_machine(const CpuList& allowed, int ranks) {
  const auto cores = cpu_cores({}, allowed);
  auto shares = ranks <= physical_cores() ? divide_cores(cores, ranks) : std::vector<CoreShare>{};
  if (shares.empty()) {
    get_logger("accelerate")
        .info("ranks are not bound to cores: " + std::to_string(ranks) + " ranks on " +
              std::to_string(physical_cores()) + " cores would wait for each other");
  }
  return shares;
}

std::optional<int> bind_to_part(c10::Device device, int local_rank, int local_world_size) {
  const auto allowed = allowed_cpus();
  if (!allowed || bound_by_launcher(*allowed)) return std::nullopt;
  if (device.is_cuda()) {
    keep_near(device, *allowed);
    return std::nullopt;
  }
  const auto shares = shares_of_this_machine(*allowed, local_world_size);
  if (shares.empty() || local_rank >= local_world_size) return std::nullopt;
  const CoreShare& own = shares[static_cast<std::size_t>(local_rank)];
  return bind(own) ? std::optional(fewest_cores(shares)) : std::nullopt;
}

}  // namespace

c10::Device choose_device(bool cpu, int local_rank) {
  if (const auto asked = env("ACCELERATE_TORCH_DEVICE")) return asked_device(*asked, local_rank);
  if (cpu || !torch::cuda::is_available()) return c10::kCPU;
  return {c10::kCUDA, static_cast<c10::DeviceIndex>(local_rank % torch::cuda::device_count())};
}

std::optional<int> keep_to_cores(c10::Device device, int local_rank, int local_world_size) {
  if (!env_flag("ACCELERATE_CPU_AFFINITY", false)) return std::nullopt;
  // Runs once: a second call would divide this rank's own part again.
  static const std::optional<int> kept = bind_to_part(device, local_rank, local_world_size);
  return kept;
}

void share_cores(std::optional<int> cores, int local_world_size) {
  if (const auto threads = openmp_threads()) {
    // OpenMP read the variable when the program began. A forked copy of the program was given
    // another number later.
    if (env_flag("FORK_LAUNCHED", false)) at::set_num_threads(std::max(1, *threads));
    return;
  }
  at::set_num_threads(
      std::max(1, cores.value_or(physical_cores() / std::max(1, local_world_size))));
}

}  // namespace accelerate
