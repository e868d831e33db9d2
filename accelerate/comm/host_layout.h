// Which ranks share a host, as the hierarchy needs it.
#pragma once

#include <string>
#include <vector>

namespace accelerate::detail {

/// The ranks of a group by host. The first rank of a host leads it.
class HostLayout {
 public:
  /// `host_of[r]` is the host of rank r. Throws UsageError unless hosts are numbered in the order
  /// of their lowest rank and `rank` is one of the group.
  HostLayout(std::vector<int> host_of, int rank);

  [[nodiscard]] int size() const { return static_cast<int>(host_of_.size()); }
  [[nodiscard]] int hosts() const { return static_cast<int>(members_.size()); }
  /// The ranks of a host, ascending.
  [[nodiscard]] const std::vector<int>& members(int host) const;
  [[nodiscard]] int host_of(int rank) const;
  /// Position of `rank` among the members of its host.
  [[nodiscard]] int place_of(int rank) const;
  /// Ranks of the host that has most.
  [[nodiscard]] int most() const;

  /// Of the rank given to the constructor.
  [[nodiscard]] int host() const { return host_of(rank_); }
  [[nodiscard]] bool leads() const { return place_of(rank_) == 0; }

  /// "inside host 1 (its ranks count from 0 and are 2, 3 of all)".
  [[nodiscard]] std::string inside_text() const;
  /// "between the hosts (their leaders count from 0 and are ranks 0, 2 of all)".
  [[nodiscard]] std::string between_text() const;

 private:
  std::vector<int> host_of_;
  std::vector<std::vector<int>> members_;
  int rank_;
};

}  // namespace accelerate::detail
