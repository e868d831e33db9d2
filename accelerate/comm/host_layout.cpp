#include "accelerate/comm/host_layout.h"

#include <algorithm>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"

namespace accelerate::detail {

HostLayout::HostLayout(std::vector<int> host_of, int rank)
    : host_of_(std::move(host_of)), rank_(rank) {
  for (int member = 0; member < size(); ++member) {
    const int host = host_of_[static_cast<std::size_t>(member)];
    if (host < 0 || host > hosts()) {
      throw UsageError("rank " + std::to_string(member) + " is said to be on host " +
                       std::to_string(host) + ", after ranks on hosts below " +
                       std::to_string(hosts()) + "; hosts count in the order of their first rank");
    }
    if (host == hosts()) members_.emplace_back();
    members_[static_cast<std::size_t>(host)].push_back(member);
  }
  if (rank_ < 0 || rank_ >= size()) {
    throw UsageError("`host_of` has " + std::to_string(size()) + " ranks, and this is rank " +
                     std::to_string(rank_));
  }
}

const std::vector<int>& HostLayout::members(int host) const {
  return members_.at(static_cast<std::size_t>(host));
}

int HostLayout::host_of(int rank) const {
  return host_of_.at(static_cast<std::size_t>(rank));
}

int HostLayout::place_of(int rank) const {
  const auto& all = members(host_of(rank));
  return static_cast<int>(std::find(all.begin(), all.end(), rank) - all.begin());
}

int HostLayout::most() const {
  std::size_t most = 0;
  for (const auto& members : members_) most = std::max(most, members.size());
  return static_cast<int>(most);
}

std::string HostLayout::inside_text() const {
  return "inside host " + std::to_string(host()) + " (its ranks count from 0 and are " +
         ranges(members(host())) + " of all)";
}

std::string HostLayout::between_text() const {
  std::vector<int> leaders;
  for (const auto& members : members_) leaders.push_back(members.front());
  return "between the hosts (their leaders count from 0 and are ranks " + ranges(leaders) +
         " of all)";
}

}  // namespace accelerate::detail
