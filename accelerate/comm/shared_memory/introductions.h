// How the ranks of one host hand each other their memory: all give it to the lowest, which gives
// all of it to everybody.
#pragma once

#include <string>
#include <vector>

#include "accelerate/base/descriptor.h"
#include "accelerate/comm/shared_memory/extent.h"
#include "accelerate/comm/shared_memory/host_notes.h"
#include "accelerate/comm/shared_memory/local_socket.h"
#include "accelerate/comm/shared_memory/process_handle.h"

namespace accelerate::detail {

/// A rank as it introduces itself.
struct Introduction {
  int rank = 0;
  Descriptor memory;
  ProcessHandle process;
  SharedExtent proof;  ///< Where the nonce of its card is.
};

/// Collects the introductions of `members`, ranks above `own`, which connect to `listener` and know
/// `token`, hands all to each of them, and returns all in rank order, `own` included. Strangers are
/// turned away. Throws CannotShare; CommError at the deadline with the ranks that did not come.
[[nodiscard]] std::vector<Introduction> lead_introductions(HostNotes& notes, const HostCard& card,
                                                           int listener,
                                                           const std::vector<int>& members,
                                                           Introduction own);

/// Introduces `own` to `leader`, whose card is given, over a connection to it, and returns what it
/// passes on. Throws as lead_introductions.
[[nodiscard]] std::vector<Introduction> follow_introductions(const HostNotes& notes, int leader,
                                                             const HostCard& card, int connection,
                                                             const Introduction& own);

}  // namespace accelerate::detail
