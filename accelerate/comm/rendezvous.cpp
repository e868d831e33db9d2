#include "accelerate/comm/rendezvous.h"

#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/comm/c10d_communicator.h"
#include "accelerate/comm/deadline.h"
#include "accelerate/comm/gloo.h"
#include "accelerate/comm/nccl.h"
#include "accelerate/comm/process_store.h"
#include "accelerate/comm/selection.h"
#include "accelerate/comm/staged_communicator.h"

namespace accelerate {
namespace {

// Called before the ranks meet, so that all ranks fail with the same error.
std::string checked_backend(const EngineOptions& engine) {
  const bool is_of_cpu = engine.backend == "gloo" || engine.backend == "shared_memory";
  if (is_of_cpu) return engine.backend;
  if (!engine.backend.empty() && engine.backend != "nccl") {
    throw ConfigError("backend is '" + engine.backend +
                      "'; allowed are gloo, shared_memory and nccl");
  }
  if (engine.device.is_cpu()) {
    if (engine.backend.empty()) return detail::comm_from_env();
    throw ConfigError(
        "backend is 'nccl', which needs a GPU, and the device is the CPU. Use 'gloo'.");
  }
  detail::require_nccl();
  return "nccl";
}

}  // namespace

std::shared_ptr<Communicator> rendezvous(const RendezvousOptions& options,
                                         const EngineOptions& engine) {
  const auto backend = checked_backend(engine);
  if (options.world_size == 1) return single_communicator();
  if (backend == "gloo") detail::check_socket_interface();
  const Deadline deadline(options.timeout);
  const auto meeting = detail::open_meeting(options, deadline);
  const GroupTimes times(options.timeout, deadline);
  if (backend == "nccl") {
    return stage_on(make_nccl_communicator(meeting.store, options.rank, options.world_size, times,
                                           engine.device),
                    engine.device);
  }
  auto group = detail::connect_on_cpu(
      meeting.store, {options.rank, options.world_size, times, meeting.local_address, backend});
  return engine.device.is_cpu() ? group : stage_on(std::move(group), c10::kCPU);
}

}  // namespace accelerate
