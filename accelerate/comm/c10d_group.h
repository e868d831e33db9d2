// What a C10dCommunicator is made of: a group of ranks, and the engine that connects them.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <functional>
#include <memory>

#include "accelerate/comm/deadline.h"
#include "accelerate/comm/flight_recorder.h"

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace accelerate {

namespace detail {
class GroupDiagnosis;
class SharedGroup;
}  // namespace detail

/// How an engine differs from Gloo.
struct C10dTraits {
  bool moves_every_dtype = false;  ///< If not, tensors that are only moved are sent as bytes.
  bool has_mean = false;           ///< If not, a mean is a sum that is divided afterwards.
  /// Performs a reduce-scatter as an all-reduce of a copy. Gloo's own reduce-scatter does the same,
  /// but never reports a failure.
  bool scatters_by_all_reduce = false;
  bool ends_when_aborted = false;   ///< If not, its destructor waits for aborted operations.
  bool knows_who_is_there = false;  ///< Has a SharedGroup, which sees that a rank has died.
  /// Allocates memory that the engine uses without a copy; empty: LibTorch's allocator.
  std::function<at::Tensor(at::IntArrayRef, const at::TensorOptions&)> empty = {};
};

/// What a group talks through; see Communicator::c10d().
struct C10dConnection {
  c10::intrusive_ptr<c10d::Store> store;  ///< Shared by exactly the ranks of the group.
  c10::intrusive_ptr<c10d::Backend> backend;
  std::shared_ptr<detail::SharedGroup> shared = nullptr;  ///< When the ranks share memory.
};

struct C10dGroup {
  c10::intrusive_ptr<c10d::Store> store;  ///< Shared by exactly the ranks of the group.
  int rank = 0;
  int size = 1;
  GroupTimes times{std::chrono::minutes(30)};
  c10::Device device = c10::kCPU;  ///< The device of the tensors that the engine takes.
  C10dTraits traits = {};
  /// Connects the ranks of a group; called again for sub-groups. May call `look` while it waits.
  std::function<C10dConnection(const C10dGroup&, const std::function<void()>& look)> connect = {};
  /// Called while the ranks of a sub-group join; throws when a rank will never join.
  std::function<void()> look = {};
  detail::GroupLabel label = {};
};

namespace detail {

/// Waits until all ranks of `group` have come, and connects them. [collective] Throws CommError
/// that says which rank is missing or why a rank failed, and ConfigError of the engine. A rank that
/// fails tells its peers by `diagnosis`.
[[nodiscard]] C10dConnection join_group(const C10dGroup& group,
                                        const std::shared_ptr<GroupDiagnosis>& diagnosis);

}  // namespace detail
}  // namespace accelerate
