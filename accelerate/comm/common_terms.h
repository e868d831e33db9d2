// What all ranks must have in common before any of them connects.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <memory>
#include <string>

#include "accelerate/base/error.h"
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
  /// Where collectives are recorded, if at all.
  std::shared_ptr<FlightRecorder> recorder = nullptr;
  /// What the rank is made of; empty for own_build(). Others are for tests.
  std::string build = {};
};

/// The LibTorch that this library was built for, such as "LibTorch 2.13.0".
[[nodiscard]] std::string own_build();

/// Waits for the terms of all ranks. Rank 0 compares them with its own: the wish, and the version of
/// LibTorch, whose releases do not understand each other's groups. [collective] Throws ConfigError
/// on all ranks if they differ, with the rank, its process and its address; CommError at the
/// deadline. Cost: as GroupDiagnosis::wait_for_everyone_to_join.
void require_common_terms(const c10::intrusive_ptr<c10d::Store>& store,
                          const SelectionOptions& options);

/// Ends the meeting with a ConfigError. To be called on every rank, for a reason that every rank has
/// found.
[[noreturn]] void refuse_on_all_ranks(const c10::intrusive_ptr<c10d::Store>& store,
                                      const SelectionOptions& options, const std::string& reason,
                                      ErrorName name = {});

}  // namespace accelerate::detail
