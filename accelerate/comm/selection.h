// Selects what ranks on the CPU communicate through.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <memory>
#include <string>

#include "accelerate/comm/common_terms.h"
#include "accelerate/comm/communicator.h"

namespace accelerate::detail {

/// Returns what ACCELERATE_COMM asks for: "gloo", "shared_memory", or empty. Throws ConfigError for
/// any other value.
[[nodiscard]] std::string comm_from_env();

/// Makes a group that uses shared memory between ranks found to be on one host, and Gloo between
/// hosts. Logs the choice at level info, and at level warning why memory could not be shared within
/// a host. [collective] Throws CommError; ConfigError on all ranks when their wishes or their
/// versions of LibTorch differ, or when shared memory is wished for and no two ranks can share any.
[[nodiscard]] std::shared_ptr<Communicator> connect_on_cpu(
    const c10::intrusive_ptr<c10d::Store>& store, const SelectionOptions& options);

}  // namespace accelerate::detail
