// The store through which this process meets others.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <string>

#include "accelerate/config/rendezvous.h"

namespace c10d {
class Store;
}

namespace accelerate::detail {

struct MeetingPlace {
  c10::intrusive_ptr<c10d::Store> store;  ///< For one meeting: no other one sees its keys.
  std::string local_address;              ///< From which the store was reached.
};

/// Opens the store of `options`, as its host or as a guest, and waits for rank 0 to begin a meeting
/// that this rank has not taken part in. [collective] The store stays open until the process ends,
/// and later meetings of the same rank and address use it again: a rank that leaves late does not
/// lose it, and the port is not asked for twice. A rank opens one meeting after the other: the order in
/// which it does is how ranks know which meeting is which. Throws CommError within options.timeout.
[[nodiscard]] MeetingPlace open_meeting(const RendezvousOptions& options);

}  // namespace accelerate::detail
