// The store through which this process meets the other ranks.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <string>

#include "accelerate/comm/deadline.h"
#include "accelerate/launch/config/rendezvous_options.h"

namespace c10d {
class Store;
}

namespace accelerate::detail {

struct MeetingPlace {
  c10::intrusive_ptr<c10d::Store> store;  ///< For one meeting; other meetings do not see its keys.
  std::string local_address;              ///< The address from which the store was reached.
};

/// Opens the store of `options`, as its host or as a client, and waits for rank 0 to begin a
/// meeting that this rank has not taken part in. [collective] The store stays open until the
/// process ends, and later meetings of the same rank and address use it again. So a rank that
/// leaves late does not lose it, and the port is bound only once. Meetings are told apart by their
/// order, so a rank must open them one after the other. Throws CommError at the deadline.
[[nodiscard]] MeetingPlace open_meeting(const RendezvousOptions& options, const Deadline& deadline);

}  // namespace accelerate::detail
