// A group over several hosts made of three: one of all ranks, one inside each host, one of a leader
// a host. What ranks of a host have to say to each other stays there, and other hosts are spoken to
// once a host and not once a rank.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "accelerate/comm/communicator.h"

namespace accelerate {

struct Hierarchy {
  /// By rank of `flat`: its host. Hosts are numbered in the order of their lowest rank; they may
  /// have different numbers of ranks, in any order.
  std::vector<int> host_of;
  /// All ranks, over the network.
  std::shared_ptr<Communicator> flat;
  /// The ranks of this host, ascending; rank 0 leads. A group of one where there is one.
  std::shared_ptr<Communicator> inside;
  /// The leaders in the order of hosts, over the network; null on other ranks. Its timeout should
  /// be a little below that of `inside`: then leaders, who know which host is missing, speak before
  /// the ranks that wait for their leader.
  std::shared_ptr<Communicator> between;
  /// Bytes of a tensor that are on their way at a time, the same on all ranks.
  std::int64_t chunk_bytes = 2 << 20;
};

/// The group of all ranks of `parts`, which nobody else may use from now on. [collective] For one
/// host that is `inside` itself. Throws UsageError when the parts do not fit together.
///
/// all_reduce, all_gather, reduce_scatter, broadcast and barrier go through leaders, in chunks, so
/// that both levels work at once; the rest goes to `flat`.
///
/// Reductions: each host's ranks in the order of `inside` (shared memory: rank order), then the
/// hosts in their order, whatever the size; computed once and sent to all, so that every rank holds
/// the same bits. Sums and products of fp16 and bf16 are fp32 on both levels, and rounded once;
/// a mean is divided before that.
///
/// Work runs in the order in which it was issued, on a thread that starts with the first; ranks may
/// wait in any order. The first failure on any level is a CommError from wait() that names the
/// level and its ranks, ends both levels for their peers too, and is what all later work says. The
/// destructor gives work in flight up to two seconds, and ends what remains as abort() does.
///
/// split(): ranks of one host get a part of `inside`; ranks all on different hosts, a part of
/// `flat`; others a hierarchy. backend() is that of `inside`, "+" and that of `flat`.
[[nodiscard]] std::shared_ptr<Communicator> make_hierarchical_communicator(Hierarchy parts);

}  // namespace accelerate
