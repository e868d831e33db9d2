// Selects what ranks on the CPU communicate through.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <memory>
#include <string>

#include "accelerate/comm/communicator.h"
#include "accelerate/comm/deadline.h"
#include "accelerate/comm/flight_recorder.h"

namespace c10d {
class Store;
}

namespace accelerate::detail {

struct SelectionOptions {
  int rank;
  int size;
  GroupTimes times;
  std::string address;  ///< Local address that peers on other hosts connect to.
  /// "gloo" or "shared_memory"; empty: chosen automatically. Must be the same on all ranks.
  std::string wish;
  std::shared_ptr<FlightRecorder> recorder =
      nullptr;  ///< Where collectives are recorded, if at all.
};

/// Returns what ACCELERATE_COMM asks for: "gloo", "shared_memory", or empty. Throws ConfigError for
/// any other value.
[[nodiscard]] std::string comm_from_env();

/// Makes a group that uses shared memory between ranks found to be on one host, and Gloo between
/// hosts. Logs the choice at level info, and at level warning why memory could not be shared within
/// a host. [collective] Throws CommError; ConfigError on all ranks when their wishes differ, or
/// when shared memory is wished for and no two ranks can share any.
[[nodiscard]] std::shared_ptr<Communicator> connect_on_cpu(
    const c10::intrusive_ptr<c10d::Store>& store, const SelectionOptions& options);

}  // namespace accelerate::detail
