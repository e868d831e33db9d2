#include "accelerate/comm/rendezvous.h"

#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/comm/c10d_communicator.h"
#include "accelerate/comm/deadline.h"
#include "accelerate/comm/gloo.h"
#include "accelerate/comm/hang_watch.h"
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
        "backend is 'nccl', which needs a GPU, and the device is the CPU. Use 'gloo'.",
        error_name::kNoGpu);
  }
  detail::require_nccl();
  return "nccl";
}

// Returns the recorder of `watch`, which lives until the last group has let its recorder go.
std::shared_ptr<detail::FlightRecorder> recorder_of(
    const std::shared_ptr<detail::HangWatch>& watch) {
  if (!watch->recorder()) return nullptr;
  return {watch, watch->recorder().get()};
}

struct Meeting {
  const detail::MeetingPlace& place;
  const Deadline& deadline;
  std::shared_ptr<detail::FlightRecorder> recorder;
};

std::shared_ptr<Communicator> connect(const RendezvousOptions& options, const EngineOptions& engine,
                                      const std::string& backend, const Meeting& meeting) {
  const auto& store = meeting.place.store;
  const GroupTimes times(options.timeout, meeting.deadline);
  if (backend == "nccl") {
    return stage_on(make_nccl_communicator(store, options.rank, options.world_size, times,
                                           engine.device, {meeting.recorder, "world", {}}),
                    engine.device);
  }
  auto group =
      detail::connect_on_cpu(store, {options.rank, options.world_size, times,
                                     meeting.place.local_address, backend, meeting.recorder});
  return engine.device.is_cpu() ? group : stage_on(std::move(group), c10::kCPU);
}

}  // namespace

std::shared_ptr<Communicator> rendezvous(const RendezvousOptions& options,
                                         const EngineOptions& engine) {
  const auto backend = checked_backend(engine);
  const auto hangs = detail::hang_options_from_env(options.timeout);
  if (options.world_size == 1) return single_communicator();
  if (backend == "gloo") detail::check_socket_interface();
  const Deadline deadline(options.timeout);
  const auto meeting = detail::open_meeting(options, deadline);
  const auto watch = std::make_shared<detail::HangWatch>(options.rank, options.world_size, hangs);
  watch->introduce({meeting.store, options.master_addr, options.master_port});
  auto group = connect(options, engine, backend, {meeting, deadline, recorder_of(watch)});
  watch->start();
  return group;
}

}  // namespace accelerate
