// The description of a rank's call for its peers. From it they see whether all ranks make the same
// call, and find memory that can be used without a copy.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>

#include "accelerate/comm/reduce_op.h"
#include "accelerate/comm/shared_memory/free_extents.h"

namespace accelerate::detail {

enum class CallKind : std::uint8_t {
  all_reduce,
  reduce,
  reduce_scatter,
  broadcast,
  all_gather,
  gather,
  scatter,
  all_to_all,
  barrier,
};

struct Call {
  CallKind kind = CallKind::barrier;
  c10::ScalarType dtype = c10::ScalarType::Byte;
  ReduceOp op = ReduceOp::sum;  ///< For kinds that reduce.
  bool in_arena = false;        ///< Whether the memory that peers read is in the arena, at `where`.
  std::int32_t root = -1;       ///< The source or destination; -1 for kinds without one.
  std::uint64_t bytes = 0;      ///< Size of the tensor, or of one rank's part of it.
  SharedExtent where{};
};

/// Whether two ranks make the same call. Where their memory lies may differ.
[[nodiscard]] bool agree(const Call& a, const Call& b);

/// Returns e.g. "all_reduce(sum) of 1024 elements of Float" or "broadcast from rank 0 of 16
/// elements of Long".
[[nodiscard]] std::string describe(const Call& call);

}  // namespace accelerate::detail
