// Ranks as threads that believe to be on several hosts.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "accelerate/comm/hierarchical_communicator.h"
#include "tests/support/ranks.h"

namespace accelerate::testing {

struct HostsOptions {
  std::chrono::milliseconds timeout{20'000};  ///< Of the group; between hosts nine tenths of it.
  std::int64_t chunk_bytes = 4096;
  Engine inside = Engine::gloo;       ///< What the ranks of a host talk through.
  std::string address = "127.0.0.1";  ///< Of this host, for the connections between hosts.
};

/// A hierarchy over `flat` that believes `host_of`. [collective]
std::shared_ptr<Communicator> hierarchy_over(const std::shared_ptr<Communicator>& flat,
                                             const std::vector<int>& host_of,
                                             const HostsOptions& options = {});

/// As run_ranks, one rank for each entry of `host_of`, with a hierarchy.
void run_hosts(const std::vector<int>& host_of,
               const std::function<void(std::shared_ptr<Communicator>)>& body,
               const HostsOptions& options = {});

/// "0011" for {0, 0, 1, 1}: the name of a layout.
std::string layout_name(const std::vector<int>& host_of);

}  // namespace accelerate::testing
