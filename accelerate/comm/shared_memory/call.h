// What a rank calls, as its peers see it: enough to tell that all call the same, and to find memory
// that can be used where it is.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>

#include "accelerate/comm/reduce_op.h"
#include "accelerate/comm/shared_memory/extent.h"

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
  ReduceOp op = ReduceOp::sum;  ///< Of the kinds that reduce.
  bool in_arena = false;        ///< What the peers read lies at `where`.
  std::int32_t root = -1;       ///< Of the kinds that have one.
  std::uint64_t bytes = 0;      ///< Of the tensor, or of one rank's part of it.
  SharedExtent where{};
};

/// Whether two ranks call the same; where their memory lies is their own affair.
[[nodiscard]] bool agree(const Call& a, const Call& b);

/// "all_reduce(sum) of 1024 elements of Float", "broadcast from rank 0 of 16 elements of Long".
[[nodiscard]] std::string describe(const Call& call);

}  // namespace accelerate::detail
