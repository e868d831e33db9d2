#include "accelerate/comm/selection.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <vector>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/logger.h"
#include "accelerate/comm/c10d_communicator.h"
#include "accelerate/comm/common_terms.h"
#include "accelerate/comm/hierarchical_communicator.h"
#include "accelerate/comm/shared_memory/peers.h"

namespace accelerate::detail {
namespace {

using StorePtr = c10::intrusive_ptr<c10d::Store>;

StorePtr part_of(const StorePtr& store, const char* name) {
  return c10::make_intrusive<c10d::PrefixStore>(name, store);
}

int count_hosts(const Hosts& hosts) {
  return 1 + *std::max_element(hosts.host_of.begin(), hosts.host_of.end());
}

std::vector<int> ranks_of(const Hosts& hosts, int host) {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < hosts.host_of.size(); ++rank) {
    if (hosts.host_of[rank] == host) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

std::vector<int> first_ranks(const Hosts& hosts) {
  std::vector<int> ranks;
  for (int host = 0; host < count_hosts(hosts); ++host) {
    ranks.push_back(ranks_of(hosts, host).front());
  }
  return ranks;
}

std::string who_is_where(const Hosts& hosts) {
  std::string text;
  for (int host = 0; host < count_hosts(hosts); ++host) {
    std::string ranks;
    for (const int rank : ranks_of(hosts, host)) {
      ranks += (ranks.empty() ? " " : ", ") + std::to_string(rank);
    }
    text += (text.empty() ? "" : "; ") + std::string("host ") + std::to_string(host + 1) +
            " has rank" + ranks;
  }
  return text;
}

// A shorter timeout for leaders: a leader that misses another host says so before the ranks that
// wait for the leader time out.
std::chrono::milliseconds of_leaders(std::chrono::milliseconds timeout) {
  return timeout - std::min<std::chrono::milliseconds>(timeout / 10, std::chrono::seconds(5));
}

std::shared_ptr<Communicator> connect_hosts(const StorePtr& store, const SelectionOptions& options,
                                            const Hosts& hosts) {
  const int host = hosts.host_of[static_cast<std::size_t>(options.rank)];
  const auto here = ranks_of(hosts, host);
  const int place = hosts.peers->index();
  Hierarchy parts;
  parts.host_of = hosts.host_of;
  parts.flat =
      make_gloo_communicator(part_of(store, "flat"), options.rank, options.size, options.times,
                             options.address, {options.recorder, "world", {}});
  parts.inside = here.size() == 1
                     ? single_communicator()
                     : make_shared_memory_communicator(
                           part_of(store, ("inside/" + std::to_string(host)).c_str()), place,
                           static_cast<int>(here.size()), options.times, hosts.peers,
                           {options.recorder, "host " + std::to_string(host), here});
  if (place == 0) {
    const Deadline meeting_of_leaders(of_leaders(options.times.meeting.left()));
    parts.between = make_gloo_communicator(part_of(store, "between"), host, count_hosts(hosts),
                                           {of_leaders(options.times.timeout), meeting_of_leaders},
                                           options.address,
                                           {options.recorder, "between hosts", first_ranks(hosts)});
  }
  return make_hierarchical_communicator(std::move(parts));
}

void refuse_if_wished(const StorePtr& store, const SelectionOptions& options,
                      const std::string& reason) {
  if (options.wish != "shared_memory") return;
  refuse_on_all_ranks(store, options,
                      "ACCELERATE_COMM asks for shared_memory, which cannot be: " + reason);
}

}  // namespace

std::string comm_from_env() {
  const auto wish = env("ACCELERATE_COMM");
  if (!wish || wish->empty()) return "";
  if (*wish == "gloo" || *wish == "shared_memory") return *wish;
  throw ConfigError("ACCELERATE_COMM is '" + *wish +
                    "'; allowed are gloo and shared_memory, or nothing for what suits");
}

std::shared_ptr<Communicator> connect_on_cpu(const StorePtr& store,
                                             const SelectionOptions& options) {
  const auto log = get_logger("accelerate.comm");
  const auto connect_gloo = [&] {
    return make_gloo_communicator(store, options.rank, options.size, options.times, options.address,
                                  {options.recorder, "world", {}});
  };
  const auto choice = part_of(store, "selection");
  require_common_terms(choice, options);
  if (options.wish == "gloo") return connect_gloo();
  const Hosts hosts =
      meet_hosts(part_of(store, "hosts"), options.rank, options.size, options.times);
  if (!hosts.why_not.empty()) {
    refuse_if_wished(choice, options, hosts.why_not);
    if (options.rank == 0) {  // All ranks have found the same.
      log.warning("the ranks talk through Gloo, which is slower than shared memory: " +
                  hosts.why_not);
    }
    return connect_gloo();
  }
  const int count = count_hosts(hosts);
  if (count == 1) {
    log.info(std::to_string(options.size) + " ranks talk through shared memory");
    return make_shared_memory_communicator(store, options.rank, options.size, options.times,
                                           hosts.peers, {options.recorder, "world", {}});
  }
  if (count == options.size) {
    refuse_if_wished(choice, options, "every rank is on a host of its own");
    log.info("the ranks talk through Gloo: every one is on a host of its own");
    return connect_gloo();
  }
  log.info("the ranks talk through shared memory, and between hosts through Gloo: " +
           who_is_where(hosts));
  return connect_hosts(store, options, hosts);
}

}  // namespace accelerate::detail
