// Passes the memory of the ranks of one host around: each rank sends its own to the lowest rank,
// which sends the memory of all to every rank.
#pragma once

#include <string>
#include <vector>

#include "accelerate/base/descriptor.h"
#include "accelerate/comm/shared_memory/free_extents.h"
#include "accelerate/comm/shared_memory/host_notes.h"
#include "accelerate/comm/shared_memory/local_socket.h"
#include "accelerate/comm/shared_memory/process_handle.h"

namespace accelerate::detail {

/// A rank as it introduces itself.
struct Introduction {
  int rank = 0;
  Descriptor memory;
  ProcessHandle process;
  SharedExtent proof;  ///< Where in its memory the nonce of its card is.
};

/// Collects the introductions of `members`, higher ranks than this one, which connect to `listener`
/// and know the token of `card`. Sends all introductions to each member, and returns them in rank
/// order, `own` included. Strangers are turned away. Throws CannotShare; CommError at the deadline,
/// with the ranks that did not come.
[[nodiscard]] std::vector<Introduction> lead_introductions(HostNotes& notes, const HostCard& card,
                                                           int listener,
                                                           const std::vector<int>& members,
                                                           Introduction own);

/// Sends `own` over `connection` to rank `leader`, which has the given `card`. Returns the
/// introductions that the leader passes on. Throws as lead_introductions.
[[nodiscard]] std::vector<Introduction> follow_introductions(const HostNotes& notes, int leader,
                                                             const HostCard& card, int connection,
                                                             const Introduction& own);

}  // namespace accelerate::detail
