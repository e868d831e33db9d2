#include "tests/support/hosts.h"

#include <stdexcept>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "accelerate/base/error.h"
#include "accelerate/comm/c10d_communicator.h"
#include "accelerate/comm/host_layout.h"
#include "accelerate/comm/shared_memory/peers.h"

namespace accelerate::testing {
namespace {

struct Seat {
  std::string prefix;
  int rank;
  int size;
  std::chrono::milliseconds timeout;
  Engine engine = Engine::gloo;
  std::string address = "127.0.0.1";
};

std::shared_ptr<Communicator> join(const Communicator& flat, const Seat& seat) {
  if (seat.size == 1) return single_communicator();
  auto store = c10::make_intrusive<c10d::PrefixStore>(seat.prefix, flat.c10d()->store);
  if (seat.engine == Engine::gloo) {
    return make_gloo_communicator(store, seat.rank, seat.size, seat.timeout, seat.address);
  }
  const auto hosts = detail::meet_hosts(c10::make_intrusive<c10d::PrefixStore>("hosts/", store),
                                        seat.rank, seat.size, seat.timeout);
  if (!hosts.peers) throw std::runtime_error("memory cannot be shared: " + hosts.why_not);
  return make_shared_memory_communicator(store, seat.rank, seat.size, seat.timeout, hosts.peers);
}

}  // namespace

std::shared_ptr<Communicator> hierarchy_over(const std::shared_ptr<Communicator>& flat,
                                             const std::vector<int>& host_of,
                                             const HostsOptions& options) {
  const detail::HostLayout layout(host_of, flat->rank());
  Hierarchy parts{host_of, flat, nullptr, nullptr, options.chunk_bytes};
  const auto mine = layout.members(layout.host()).size();
  parts.inside =
      join(*flat, {"inside" + std::to_string(layout.host()) + "/", layout.place_of(flat->rank()),
                   static_cast<int>(mine), options.timeout, options.inside});
  if (layout.leads() && layout.hosts() > 1) {
    parts.between = join(*flat, {"between/", layout.host(), layout.hosts(), options.timeout / 2,
                                 Engine::gloo, options.address});
  }
  return make_hierarchical_communicator(std::move(parts));
}

void run_hosts(const std::vector<int>& host_of,
               const std::function<void(std::shared_ptr<Communicator>)>& body,
               const HostsOptions& options) {
  run_ranks_shared(static_cast<int>(host_of.size()),
                   [&](const std::shared_ptr<Communicator>& flat) {
                     const auto hierarchy = hierarchy_over(flat, host_of, options);
                     try {
                       body(hierarchy);
                     } catch (const std::exception& error) {
                       hierarchy->abort(describe(error));
                       throw;
                     }
                   },
                   {.timeout = options.timeout, .engine = Engine::gloo});
}

std::string layout_name(const std::vector<int>& host_of) {
  std::string name;
  for (const int host : host_of) name += std::to_string(host);
  return name;
}

}  // namespace accelerate::testing
