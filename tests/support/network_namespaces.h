// Hosts on one machine: network namespaces, each with a loopback and an address of its own, joined
// by virtual cables. Each lives as long as a process that this one keeps for it, and no longer than
// this one, however it ends; nothing is left in the file system.
#pragma once

#include <sys/types.h>
#include <string>
#include <vector>

namespace accelerate::testing {

class NetworkNamespaces {
 public:
  /// Why this process cannot make them; empty when it can. Needs root, `ip`, `nft`, `nsenter`
  /// and `setpriv`.
  static std::string why_not();

  /// `hosts` of them, from 2 to 8, each with a cable to every other. Throws std::runtime_error with
  /// what a command of `ip` said when one fails.
  explicit NetworkNamespaces(int hosts);
  ~NetworkNamespaces();
  NetworkNamespaces(const NetworkNamespaces&) = delete;
  NetworkNamespaces& operator=(const NetworkNamespaces&) = delete;

  /// "10.99.0.2" for host 1: reached from every host.
  static std::string address(int host);
  /// The words to put before a command that is to run on a host; it dies with the calling thread.
  [[nodiscard]] std::vector<std::string> on(int host) const;
  /// From now on a host lets no packet in for which `what`, a condition of `nft`, is true.
  void drop(int host, const std::string& what) const;
  /// The name, on host `from`, of the cable to host `to`.
  static std::string cable(int from, int to);

 private:
  void run_on(int host, std::vector<std::string> command) const;
  void connect(int from, int to) const;
  void give_address(int host, int other) const;

  std::vector<pid_t> keepers_;
};

}  // namespace accelerate::testing
