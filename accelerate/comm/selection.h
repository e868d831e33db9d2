// What ranks on the CPU talk through.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <memory>
#include <string>

#include "accelerate/comm/communicator.h"

namespace c10d {
class Store;
}

namespace accelerate::detail {

struct SelectionOptions {
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds timeout{};
  std::string address;  ///< Local address that peers on other hosts connect to.
  /// "gloo" or "shared_memory"; empty: what suits. Must be the same on all ranks.
  std::string wish;
};

/// What ACCELERATE_COMM asks for: "gloo", "shared_memory", or empty. Throws ConfigError.
[[nodiscard]] std::string comm_from_env();

/// A group over shared memory where ranks prove to be on one host, over Gloo between hosts. Says
/// which at level info, and at level warning why memory could not be shared where it should.
/// [collective] Throws CommError; ConfigError on all ranks: their wishes differ, or shared memory
/// is wished for and no two ranks have any.
[[nodiscard]] std::shared_ptr<Communicator> connect_on_cpu(
    const c10::intrusive_ptr<c10d::Store>& store, const SelectionOptions& options);

}  // namespace accelerate::detail
