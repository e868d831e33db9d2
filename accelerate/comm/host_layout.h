// Which ranks share a host, for a group over several hosts.
#pragma once

#include <string>
#include <vector>

namespace accelerate::detail {

/// The ranks of a group by host. The first rank of a host is its leader.
class HostLayout {
 public:
  /// `host_of[r]` is the host of rank r. Throws UsageError unless hosts are numbered in the order
  /// of their lowest rank and `rank` belongs to the group.
  HostLayout(std::vector<int> host_of, int rank);

  [[nodiscard]] int size() const { return static_cast<int>(host_of_.size()); }
  [[nodiscard]] int hosts() const { return static_cast<int>(members_.size()); }
  /// The ranks of a host, ascending.
  [[nodiscard]] const std::vector<int>& members(int host) const;
  [[nodiscard]] int host_of(int rank) const;
  /// The position of `rank` among the members of its host.
  [[nodiscard]] int place_of(int rank) const;
  /// The number of ranks on the host with the most ranks.
  [[nodiscard]] int most() const;

  /// The host of the rank given to the constructor, and whether this rank leads it.
  [[nodiscard]] int host() const { return host_of(rank_); }
  [[nodiscard]] bool leads() const { return place_of(rank_) == 0; }

  /// Returns e.g. "inside host 1 (its ranks count from 0 and are 2, 3 of all)".
  [[nodiscard]] std::string inside_text() const;
  /// Returns e.g. "between the hosts (their leaders count from 0 and are ranks 0, 2 of all)".
  [[nodiscard]] std::string between_text() const;

 private:
  std::vector<int> host_of_;
  std::vector<std::vector<int>> members_;
  int rank_;
};

}  // namespace accelerate::detail
