#include "accelerate/comm/state/partial_state.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <unistd.h>

#include <mutex>
#include <utility>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/logger.h"
#include "accelerate/base/process_identity.h"
#include "accelerate/base/terminal/live_lines.h"
#include "accelerate/comm/rendezvous.h"
#include "accelerate/comm/state/device.h"

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

}  // namespace accelerate
