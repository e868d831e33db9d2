#include "accelerate/comm/state/partial_state.h"

#include <ATen/Parallel.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <torch/cuda.h>
#include <unistd.h>
#include <algorithm>
#include <iterator>
#include <mutex>
#include <string>
#include <utility>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/logger.h"
#include "accelerate/base/machine/cpu_affinity.h"
#include "accelerate/base/machine/gpus.h"
#include "accelerate/base/machine/topology.h"
#include "accelerate/base/process_identity.h"
#include "accelerate/base/terminal/live_lines.h"
#include "accelerate/comm/rendezvous.h"

namespace accelerate {
namespace {

// Throws ConfigError when the launcher asks, through the environment, for a type of training that
// this library does not have.
void refuse_unbuilt_types() {
  struct Unbuilt {
    const char* variable;
    const char* type;
    const char* cure;
  };
  for (const Unbuilt& unbuilt :
       {Unbuilt{"ACCELERATE_USE_MEGATRON_LM", "MEGATRON_LM",
                "use distributed_type FSDP or DEEPSPEED, which shard models, or MULTI_CPU or "
                "MULTI_GPU"},
        Unbuilt{"ACCELERATE_USE_PARALLELISM_CONFIG", "parallelism_config",
                "leave the section parallelism_config (and --use_parallelism_config) out; groups "
                "of ranks that share a model are HYBRID_SHARD with "
                "ACCELERATE_FSDP_SHARD_GROUP_SIZE"}}) {
    if (!env_flag(unbuilt.variable, false)) continue;
    throw ConfigError(
        std::string(unbuilt.variable) + " asks for " + unbuilt.type +
        ", which this version does not have. It has data parallel and sharded training: " +
        unbuilt.cure + ".");
  }
}

std::shared_ptr<Communicator> join_shared(const RendezvousOptions& options,
                                          const EngineOptions& engine) {
  static std::mutex mutex;
  static std::weak_ptr<Communicator> shared;
  const std::lock_guard lock(mutex);
  if (auto existing = shared.lock()) return existing;
  auto communicator = rendezvous(options, engine);
  shared = communicator;
  return communicator;
}

void tell_base(const PartialState& state) {
  set_process_identity({state.process_index(), state.num_processes(), state.local_process_index(),
                        state.local_num_processes(), true,
                        [weak = std::weak_ptr(state.communicator())] {
                          if (const auto communicator = weak.lock()) communicator->barrier();
                        }});
}

DistributedType type_of(int num_processes, c10::Device device) {
  if (num_processes == 1) return DistributedType::NO;
  return device.is_cpu() ? DistributedType::MULTI_CPU : DistributedType::MULTI_GPU;
}

// Makes `device` the one for kernels and streams that name no device.
void make_current(c10::Device device) {
  if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).setDevice(device);
}

}  // namespace

PartialState::PartialState(const PartialStateOptions& options) {
  // A bad ACCELERATE_LOG_LEVEL is reported now, not in the middle of a wait.
  (void)get_logger("accelerate");
  refuse_unbuilt_types();
  detail::note_training();
  if (options.timeout && options.timeout->count() <= 0) {
    throw ConfigError("the timeout is " + std::to_string(options.timeout->count()) +
                      " ms; it must be greater than 0 (default 30 minutes)");
  }
  const bool cpu = options.cpu || env_flag("ACCELERATE_USE_CPU", false);
  if (options.communicator) {
    communicator_ = options.communicator;
    local_rank_ = communicator_->rank();
    local_world_size_ = communicator_->size();
    device_ = choose_device(cpu, local_rank_);
  } else {
    RendezvousOptions meeting = rendezvous_options_from_env();
    if (options.timeout) meeting.timeout = *options.timeout;
    local_rank_ = meeting.local_rank;
    local_world_size_ = meeting.local_world_size;
    device_ = choose_device(cpu, local_rank_);
    make_current(device_);
    communicator_ = join_shared(meeting, {.device = device_, .backend = options.backend});
  }
  distributed_type_ = type_of(num_processes(), device_);
  if (options.cpu && !device_.is_cpu()) {
    get_logger("accelerate")
        .warning("ACCELERATE_TORCH_DEVICE is " + device_.str() +
                 ", and the program asks for the CPU: the variable counts. Unset it to train on "
                 "the CPU.");
  }
  if (options.communicator) return;  // a test brings its own group, and its process is not set up
  tell_base(*this);
  const auto cores = keep_to_cores(device_, local_rank_, local_world_size_);
  if (device_.is_cpu()) share_cores(cores, local_world_size_);
}

void PartialState::print_line(const std::string& line) {
  print_above_live_lines(STDOUT_FILENO, line + "\n");
}

std::string to_string(const PartialState& state) {
  std::string text = "Distributed environment: " + std::string(to_string(state.distributed_type()));
  if (state.use_distributed()) text += "  Backend: " + std::string(state.communicator()->backend());
  text += "\nNum processes: " + std::to_string(state.num_processes());
  text += "\nProcess index: " + std::to_string(state.process_index());
  text += "\nLocal process index: " + std::to_string(state.local_process_index());
  return text + "\nDevice: " + state.device().str() + "\n";
}

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
                          "CUDA_VISIBLE_DEVICES say?",
                      error_name::kNoGpu);
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
