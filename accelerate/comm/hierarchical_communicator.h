// A group over several hosts, made of three groups: one of all ranks, one inside each host, and one
// with a leader from each host. Traffic between ranks of a host stays on the host. Traffic between
// hosts is sent once per host and not once per rank.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "accelerate/comm/communicator.h"

namespace accelerate {

struct Hierarchy {
  /// The host of each rank of `flat`. Hosts are numbered in the order of their lowest rank; they
  /// may have different numbers of ranks, in any order.
  std::vector<int> host_of;
  /// All ranks, over the network.
  std::shared_ptr<Communicator> flat;
  /// The ranks of this host, ascending; rank 0 leads. A group of one on a host with one rank.
  std::shared_ptr<Communicator> inside;
  /// The leaders in the order of hosts, over the network; null on other ranks. Its timeout should
  /// be a little below the timeout of `inside`. Then the leaders, who know which host is missing,
  /// report it before the ranks that wait for their leader time out.
  std::shared_ptr<Communicator> between;
  /// Size of the chunks in which tensors are sent; the same on all ranks.
  std::int64_t chunk_bytes = 2 << 20;
};

/// Makes the group of all ranks of `parts`, which nobody else may use from now on. [collective] If
/// there is only one host, returns `inside` itself. Throws UsageError when the parts do not fit
/// together.
///
/// all_reduce, all_gather, reduce_scatter, broadcast and barrier go through the leaders, in chunks,
/// so that both levels work simultaneously. All other operations go to `flat`.
///
/// Reductions first combine each host's ranks in the order of `inside` (shared memory: rank order),
/// then the hosts in their order, whatever the size. The result is computed once and sent to all,
/// so every rank holds the same bits. Sums and products of fp16 and bf16 are computed in fp32 on
/// both levels and rounded once; a mean is divided before it is rounded.
///
/// Work runs in the order in which it was issued, on a thread that starts with the first operation;
/// ranks may wait in any order. The first failure on any level is a CommError from wait() that
/// names the level and its ranks. It ends both levels, for the peers too, and all later work fails
/// with the same error. The destructor gives work in flight up to two seconds, and then aborts the
/// rest.
///
/// split() returns a part of `inside` for ranks of one host, a part of `flat` for ranks that are
/// all on different hosts, and else a hierarchy. backend() joins the names of `inside` and `flat`
/// by "+".
[[nodiscard]] std::shared_ptr<Communicator> make_hierarchical_communicator(Hierarchy parts);

}  // namespace accelerate
