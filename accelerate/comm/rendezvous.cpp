#include "accelerate/comm/rendezvous.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <string>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/logger.h"
#include "accelerate/comm/c10d_communicator.h"
#include "accelerate/comm/diagnosis.h"
#include "accelerate/comm/nccl.h"
#include "accelerate/comm/selection.h"
#include "accelerate/comm/socket.h"
#include "accelerate/comm/staged_communicator.h"
#include "accelerate/comm/store_connection.h"

namespace accelerate {
namespace {

struct Meeting {
  c10::intrusive_ptr<c10d::Store> store;
  std::string local_address;
};

Meeting open_store(const RendezvousOptions& options) {
  c10d::TCPStoreOptions store;
  store.port = static_cast<std::uint16_t>(options.master_port);
  store.timeout = options.timeout;
  store.waitWorkers = false;  // we wait ourselves, and say for whom
  store.isServer = options.rank == 0 && !options.store_is_hosted_by_launcher;
  // Left to itself the store listens on every interface; so it gets a socket that is bound to one.
  if (store.isServer) {
    store.masterListenFd = detail::bind_only(options.master_addr, options.master_port);
  }
  std::string local = options.master_addr;
  if (!store.isServer) {
    local = detail::wait_until_reachable(
        options.master_addr, options.master_port, options.timeout,
        [&options](std::chrono::milliseconds waited) {
          get_logger("accelerate.comm")
              .warning("rank " + std::to_string(options.rank) + " waits for rank 0 to listen on " +
                           options.master_addr + ":" + std::to_string(options.master_port) + " (" +
                           detail::format_duration(waited) + " of " +
                           detail::format_duration(options.timeout) + ")",
                       {.main_process_only = false});
        });
  }
  auto connected = c10::make_intrusive<c10d::TCPStore>(options.master_addr, store);
  detail::notice_lost_host(options.master_addr, options.master_port, options.timeout);
  return {std::move(connected), local};
}

// Before anybody is met: all ranks fail alike.
std::string checked_backend(const EngineOptions& engine) {
  const bool is_of_cpu = engine.backend == "gloo" || engine.backend == "shared_memory";
  if (is_of_cpu) return engine.backend;
  if (!engine.backend.empty() && engine.backend != "nccl") {
    throw ConfigError("backend is '" + engine.backend +
                      "'; allowed are gloo, shared_memory and nccl");
  }
  if (engine.device.is_cpu()) {
    if (engine.backend.empty()) return detail::comm_from_env();
    throw ConfigError("backend 'nccl' was asked for on the CPU; it needs a GPU. Use 'gloo'.");
  }
  if (!detail::has_nccl()) {
    throw ConfigError(
        "distributed_type MULTI_GPU runs over NCCL, and this library was compiled without it. "
        "Build with a CUDA LibTorch (tools/gpu_check does), set "
        "init_process_group.backend = \"gloo\", or train on the CPU with "
        "`accelerate launch --cpu`.");
  }
  return "nccl";
}

}  // namespace

std::shared_ptr<Communicator> rendezvous(const RendezvousOptions& options,
                                         const EngineOptions& engine) {
  const auto backend = checked_backend(engine);
  if (options.world_size == 1) return single_communicator();
  Meeting meeting;
  try {
    meeting = open_store(options);
  } catch (const CommError&) {
    throw;
  } catch (const std::exception& error) {
    throw CommError("rank " + std::to_string(options.rank) + " of " +
                    std::to_string(options.world_size) + " could not open the store on " +
                    options.master_addr + ":" + std::to_string(options.master_port) + ": " +
                    detail::first_line(error));
  }
  const std::string prefix = "accelerate.cpp/attempt" + std::to_string(options.restart_count);
  auto store = c10::make_intrusive<c10d::PrefixStore>(prefix, meeting.store);
  if (backend == "nccl") {
    return stage_on(make_nccl_communicator(std::move(store), options.rank, options.world_size,
                                           options.timeout, engine.device),
                    engine.device);
  }
  auto group = detail::connect_on_cpu(
      store, {options.rank, options.world_size, options.timeout, meeting.local_address, backend});
  return engine.device.is_cpu() ? group : stage_on(std::move(group), c10::kCPU);
}

}  // namespace accelerate
