// The machines of a hostfile, as DeepSpeed writes and filters them.
#pragma once

#include <string>
#include <vector>

namespace accelerate {

/// A machine, and those of its slots (GPUs) that are used.
struct Host {
  std::string name;
  std::vector<int> slots;
  bool is_whole = true;  ///< Whether all its slots are used.
};

/// Reads lines such as "node1 slots=4"; # begins a comment. Throws ConfigError, which names `file` and
/// the line, for other lines, a host that is there twice, and a file without hosts.
[[nodiscard]] std::vector<Host> parse_hosts(const std::string& text, const std::string& file);

/// Keeps what `inclusion` names, or drops what `exclusion` names; "" changes nothing. A filter is
/// "node1@node2:0,2": the whole of node1, and two slots of node2. Throws ConfigError if both are
/// given, for hosts and slots that are not there, and if nothing is left.
[[nodiscard]] std::vector<Host> filter_hosts(std::vector<Host> hosts, const std::string& inclusion,
                                             const std::string& exclusion);

}  // namespace accelerate
